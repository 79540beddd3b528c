// Sarama drives sarama by commands; see package lines.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"clients/lines"
)

type driver struct {
	seeds     []string
	admin     sarama.ClusterAdmin
	producers map[lines.Kind]sarama.SyncProducer
}

func main() {
	seeds := strings.Split(os.Args[1], ",")
	admin, err := sarama.NewClusterAdmin(seeds, settings())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines.Serve(&driver{seeds, admin, map[lines.Kind]sarama.SyncProducer{}})
}

func settings() *sarama.Config {
	settings := sarama.NewConfig()
	settings.Version = sarama.MaxVersion
	// It gives up after a few tries by default; a leader is dead for longer.
	settings.Metadata.Retry.Max = 100
	settings.Metadata.Retry.Backoff = 100 * time.Millisecond
	settings.Admin.Retry.Max = 100
	return settings
}

func (driver *driver) Module() string {
	return "github.com/IBM/sarama"
}

func (driver *driver) CreateTopic(topic string, partitions int32, configs map[string]*string) error {
	return driver.admin.CreateTopic(
		topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 3, ConfigEntries: configs}, false)
}

func (driver *driver) Topics() (map[string]int, error) {
	listed, err := driver.admin.ListTopics()
	topics := map[string]int{}
	for name, each := range listed {
		topics[name] = int(each.NumPartitions)
	}
	return topics, err
}

func (driver *driver) AddPartitions(topic string, total int) error {
	return driver.admin.CreatePartitions(topic, int32(total), nil, false)
}

func (driver *driver) SetConfig(topic, key, value string) error {
	entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	entries := map[string]sarama.IncrementalAlterConfigsEntry{key: entry}
	return driver.admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false)
}

func (driver *driver) Config(topic, key string) (string, error) {
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{key}}
	entries, err := driver.admin.DescribeConfig(resource)
	for _, each := range entries {
		if each.Name == key {
			return each.Value, nil
		}
	}
	return "", errors.Join(err, fmt.Errorf("%s has no %s", topic, key))
}

func (driver *driver) DeleteTopic(topic string) error {
	return driver.admin.DeleteTopic(topic)
}

func (driver *driver) Assign(topic string, assignment [][]int32, keepCount bool) error {
	if keepCount {
		return errors.New("sarama cannot ask for that")
	}
	return driver.admin.AlterPartitionReassignments(topic, assignment)
}

func (driver *driver) Moves(topic string, partitions []int32) (map[int32]lines.Move, error) {
	listed, err := driver.admin.ListPartitionReassignments(topic, partitions)
	moves := map[int32]lines.Move{}
	for number, each := range listed[topic] {
		moves[number] = lines.Move{
			Replicas: each.Replicas, Adding: each.AddingReplicas, Removing: each.RemovingReplicas,
		}
	}
	return moves, err
}

func (driver *driver) producer(kind lines.Kind) (sarama.SyncProducer, error) {
	if producer, ok := driver.producers[kind]; ok {
		return producer, nil
	}
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	acks := map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}
	settings := settings()
	settings.Producer.Compression = codecs[kind.Codec]
	settings.Producer.RequiredAcks = acks[kind.Acks]
	settings.Producer.Idempotent = kind.Idempotent
	settings.Producer.Partitioner = sarama.NewManualPartitioner
	settings.Producer.Return.Successes = true
	settings.Producer.Flush.MaxMessages = 25
	settings.Producer.Retry.Max = 300
	settings.Producer.Retry.Backoff = 100 * time.Millisecond
	// With more in flight it writes again what was written, in another order, or (idempotent) refuses to begin.
	settings.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(driver.seeds, settings)
	if err == nil {
		driver.producers[kind] = producer
	}
	return producer, err
}

func (driver *driver) Produce(topic string, kind lines.Kind, records []lines.Record) ([]int64, error) {
	producer, err := driver.producer(kind)
	if err != nil {
		return nil, err
	}
	sent := []*sarama.ProducerMessage{}
	for _, each := range records {
		message := &sarama.ProducerMessage{Topic: topic, Partition: 0}
		if each.Key != nil {
			message.Key = sarama.StringEncoder(*each.Key)
		}
		if each.Value != nil {
			message.Value = sarama.StringEncoder(*each.Value)
		}
		for _, header := range each.Headers {
			pair := sarama.RecordHeader{Key: []byte(header.Name), Value: lines.Bytes(header.Value)}
			message.Headers = append(message.Headers, pair)
		}
		if each.Timestamp != nil {
			message.Timestamp = time.UnixMilli(*each.Timestamp)
		}
		sent = append(sent, message)
	}
	err = producer.SendMessages(sent)
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) {
		err = failed[0].Err // The whole says only how many there are.
	}
	if err != nil {
		return nil, err
	}
	offsets := []int64{}
	for _, message := range sent {
		if kind.Acks == "0" {
			message.Offset = -1
		}
		offsets = append(offsets, message.Offset)
	}
	return offsets, nil
}

func (driver *driver) Fetch(topic string, offset int64, count int) ([]lines.Record, error) {
	consumer, err := sarama.NewConsumer(driver.seeds, settings())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, offset)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	deadline := time.After(lines.Deadline)
	records := []lines.Record{}
	for len(records) < count {
		select {
		case message := <-partition.Messages():
			records = append(records, told(message))
		case <-deadline:
			return nil, fmt.Errorf("%d of %d records", len(records), count)
		}
	}
	return records, nil
}

func (driver *driver) OffsetAt(topic string, timestamp int64) (int64, error) {
	client, err := sarama.NewClient(driver.seeds, settings())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	return client.GetOffset(topic, 0, timestamp)
}

func told(message *sarama.ConsumerMessage) lines.Record {
	timestamp := message.Timestamp.UnixMilli()
	headers := []lines.Header{}
	for _, header := range message.Headers {
		headers = append(headers, lines.Header{Name: string(header.Key), Value: lines.Text(header.Value)})
	}
	return lines.Record{
		Partition: message.Partition, Offset: message.Offset, Timestamp: &timestamp,
		Key: lines.Text(message.Key), Value: lines.Text(message.Value), Headers: headers,
	}
}

// member is also the group's handler: what it reads it marks, and a commit sends the marks.
type member struct {
	lines.Seen
	topic   string
	group   sarama.ConsumerGroup
	cancel  context.CancelFunc
	over    chan struct{}
	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
}

func (driver *driver) Join(group, topic string) (lines.Member, error) {
	settings := settings()
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Offsets.AutoCommit.Enable = false
	settings.Consumer.Group.Session.Timeout = 10 * time.Second
	settings.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	settings.Consumer.Group.Rebalance.Retry.Max = 100
	settings.Consumer.Group.Rebalance.Retry.Backoff = 100 * time.Millisecond
	joined, err := sarama.NewConsumerGroup(driver.seeds, group, settings)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	member := &member{topic: topic, group: joined, cancel: cancel, over: make(chan struct{})}
	go member.run(ctx)
	return member, nil
}

func (member *member) run(ctx context.Context) {
	defer close(member.over)
	for ctx.Err() == nil {
		// It returns whenever the group is shared out anew.
		if err := member.group.Consume(ctx, []string{member.topic}, member); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// Setup begins a generation.
func (member *member) Setup(session sarama.ConsumerGroupSession) error {
	member.mutex.Lock()
	defer member.mutex.Unlock()
	member.session = session
	member.Own(session.Claims()[member.topic])
	return nil
}

// Cleanup ends a generation.
func (member *member) Cleanup(session sarama.ConsumerGroupSession) error {
	member.Disown(session.Claims()[member.topic])
	return nil
}

// ConsumeClaim reads one partition until the generation ends.
func (member *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			session.MarkMessage(message, "")
			member.Read(told(message))
		case <-session.Context().Done():
			return nil
		}
	}
}

// Commit sends the marks; what is not answered is sent again when the member leaves.
func (member *member) Commit() error {
	member.mutex.Lock()
	defer member.mutex.Unlock()
	if member.session == nil {
		return errors.New("not in the group")
	}
	member.session.Commit()
	return nil
}

func (member *member) Close() error {
	member.mutex.Lock()
	if member.session != nil {
		member.session.Commit()
	}
	member.mutex.Unlock()
	member.cancel()
	<-member.over
	return member.group.Close()
}
