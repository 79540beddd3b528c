// Franz drives franz-go by commands; see package lines.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"clients/lines"
)

type driver struct {
	seeds     []string
	admin     *kadm.Client
	producers map[lines.Kind]*kgo.Client
}

func main() {
	seeds := strings.Split(os.Args[1], ",")
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines.Serve(&driver{seeds, kadm.NewClient(client), map[lines.Kind]*kgo.Client{}})
}

func inTime() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), lines.Deadline)
}

func (driver *driver) Module() string {
	return "github.com/twmb/franz-go"
}

func (driver *driver) CreateTopic(topic string, partitions int32, configs map[string]*string) error {
	ctx, cancel := inTime()
	defer cancel()
	_, err := driver.admin.CreateTopic(ctx, partitions, 3, configs, topic)
	return err
}

func (driver *driver) Topics() (map[string]int, error) {
	ctx, cancel := inTime()
	defer cancel()
	listed, err := driver.admin.ListTopicsWithInternal(ctx)
	topics := map[string]int{}
	for _, each := range listed {
		topics[each.Topic] = len(each.Partitions)
	}
	return topics, err
}

func (driver *driver) AddPartitions(topic string, total int) error {
	ctx, cancel := inTime()
	defer cancel()
	answers, err := driver.admin.UpdatePartitions(ctx, total, topic)
	if err == nil {
		err = answers.Error()
	}
	return err
}

func (driver *driver) SetConfig(topic, key, value string) error {
	ctx, cancel := inTime()
	defer cancel()
	wanted := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}
	answers, err := driver.admin.AlterTopicConfigs(ctx, wanted, topic)
	if err == nil {
		_, err = answers.On(topic, func(answer *kadm.AlterConfigsResponse) error { return answer.Err })
	}
	return err
}

func (driver *driver) Config(topic, key string) (string, error) {
	ctx, cancel := inTime()
	defer cancel()
	described, err := driver.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", err
	}
	resource, err := described.On(topic, nil)
	if err != nil {
		return "", err
	}
	for _, each := range resource.Configs {
		if each.Key == key {
			return each.MaybeValue(), nil
		}
	}
	return "", fmt.Errorf("%s has no %s", topic, key)
}

func (driver *driver) DeleteTopic(topic string) error {
	ctx, cancel := inTime()
	defer cancel()
	_, err := driver.admin.DeleteTopic(ctx, topic)
	return err
}

func (driver *driver) Assign(topic string, assignment [][]int32, keepCount bool) error {
	ctx, cancel := inTime()
	defer cancel()
	if keepCount {
		ctx = kadm.ForbidAlterRf(ctx)
	}
	asked := kadm.AlterPartitionAssignmentsReq{}
	for number, replicas := range assignment {
		asked.Assign(topic, int32(number), replicas)
	}
	answers, err := driver.admin.AlterPartitionAssignments(ctx, asked)
	if err != nil {
		return err
	}
	for _, each := range answers.Sorted() {
		if each.Err != nil {
			return fmt.Errorf("%s-%d: %w: %s", each.Topic, each.Partition, each.Err, each.ErrMessage)
		}
	}
	return nil
}

func (driver *driver) Moves(topic string, partitions []int32) (map[int32]lines.Move, error) {
	ctx, cancel := inTime()
	defer cancel()
	asked := kadm.TopicsSet{}
	asked.Add(topic, partitions...)
	answers, err := driver.admin.ListPartitionReassignments(ctx, asked)
	moves := map[int32]lines.Move{}
	answers.Each(func(each kadm.ListPartitionReassignmentsResponse) {
		moves[each.Partition] = lines.Move{
			Replicas: each.Replicas, Adding: each.AddingReplicas, Removing: each.RemovingReplicas,
		}
	})
	return moves, err
}

func (driver *driver) producer(kind lines.Kind) (*kgo.Client, error) {
	if client, ok := driver.producers[kind]; ok {
		return client, nil
	}
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	options := []kgo.Opt{
		kgo.SeedBrokers(driver.seeds...),
		kgo.ProducerBatchCompression(codecs[kind.Codec]),
		kgo.RequiredAcks(acks[kind.Acks]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(2 * time.Millisecond),
		kgo.ProducerBatchMaxBytes(4096),
		kgo.MetadataMaxAge(5 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if !kind.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err == nil {
		driver.producers[kind] = client
	}
	return client, err
}

func (driver *driver) Produce(topic string, kind lines.Kind, records []lines.Record) ([]int64, error) {
	client, err := driver.producer(kind)
	if err != nil {
		return nil, err
	}
	sent := []*kgo.Record{}
	for _, each := range records {
		record := &kgo.Record{Topic: topic, Partition: 0, Key: lines.Bytes(each.Key), Value: lines.Bytes(each.Value)}
		for _, header := range each.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Name, Value: lines.Bytes(header.Value)})
		}
		if each.Timestamp != nil {
			record.Timestamp = time.UnixMilli(*each.Timestamp)
		}
		sent = append(sent, record)
	}
	ctx, cancel := inTime()
	defer cancel()
	if err := client.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := []int64{}
	for _, record := range sent {
		if kind.Acks == "0" {
			record.Offset = -1
		}
		offsets = append(offsets, record.Offset)
	}
	return offsets, nil
}

func (driver *driver) Fetch(topic string, offset int64, count int) ([]lines.Record, error) {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(offset)}}
	client, err := kgo.NewClient(kgo.SeedBrokers(driver.seeds...), kgo.ConsumePartitions(start))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := inTime()
	defer cancel()
	records := []lines.Record{}
	for len(records) < count {
		fetched := client.PollRecords(ctx, count-len(records))
		if errors := fetched.Errors(); len(errors) > 0 {
			return nil, errors[0].Err
		}
		fetched.EachRecord(func(record *kgo.Record) { records = append(records, told(record)) })
	}
	return records, nil
}

func (driver *driver) OffsetAt(topic string, timestamp int64) (int64, error) {
	ctx, cancel := inTime()
	defer cancel()
	listed, err := driver.admin.ListOffsetsAfterMilli(ctx, timestamp, topic)
	if err == nil {
		err = listed.Error()
	}
	found, _ := listed.Lookup(topic, 0)
	if found.Timestamp == -1 { // Then the offset is the end of the partition.
		return -1, err
	}
	return found.Offset, err
}

func told(record *kgo.Record) lines.Record {
	timestamp := record.Timestamp.UnixMilli()
	headers := []lines.Header{}
	for _, header := range record.Headers {
		headers = append(headers, lines.Header{Name: header.Key, Value: lines.Text(header.Value)})
	}
	return lines.Record{
		Partition: record.Partition, Offset: record.Offset, Timestamp: &timestamp,
		Key: lines.Text(record.Key), Value: lines.Text(record.Value), Headers: headers,
	}
}

type member struct {
	lines.Seen
	client *kgo.Client
	over   chan struct{}
}

func (driver *driver) Join(group, topic string) (lines.Member, error) {
	return driver.join(group, topic, kgo.ReadUncommitted())
}

func (driver *driver) join(group, topic string, isolation kgo.IsolationLevel) (lines.Member, error) {
	joined := &member{over: make(chan struct{})}
	own := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { joined.Own(partitions[topic]) }
	disown := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		joined.Disown(partitions[topic])
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(driver.seeds...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(isolation),
		kgo.OnPartitionsAssigned(own), kgo.OnPartitionsRevoked(disown), kgo.OnPartitionsLost(disown),
	)
	if err != nil {
		return nil, err
	}
	joined.client = client
	go joined.run()
	return joined, nil
}

func (member *member) run() {
	defer close(member.over)
	for {
		fetched := member.client.PollFetches(context.Background())
		if fetched.IsClientClosed() {
			return
		}
		fetched.EachRecord(func(record *kgo.Record) { member.Read(told(record)) })
	}
}

func (member *member) Commit() error {
	ctx, cancel := inTime()
	defer cancel()
	for {
		err := member.client.CommitUncommittedOffsets(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		// The group is about to be shared out anew.
		time.Sleep(100 * time.Millisecond)
	}
}

func (member *member) Close() error {
	member.client.Close()
	<-member.over
	return nil
}
