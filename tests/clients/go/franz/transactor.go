package main

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"clients/lines"
)

func (driver *driver) JoinCommitted(group, topic string) (lines.Member, error) {
	return driver.join(group, topic, kgo.ReadCommitted())
}

type transactor struct {
	seeds  []string
	id     string
	client *kgo.Client
}

// Open asks for the producer's id, so that a former producer of the same transactional id is refused from then on.
func (driver *driver) Open(transactionalID string) (lines.Transactor, error) {
	return open(driver.seeds, transactionalID)
}

func open(seeds []string, transactionalID string) (*transactor, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(seeds...), kgo.TransactionalID(transactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return nil, err
	}
	ctx, cancel := inTime()
	defer cancel()
	_, _, err = client.ProducerID(ctx)
	return &transactor{seeds, transactionalID, client}, err
}

func (transactor *transactor) Begin() error {
	return transactor.client.BeginTransaction()
}

func (transactor *transactor) Send(topic string, values []string) error {
	ctx, cancel := inTime()
	defer cancel()
	sent := []*kgo.Record{}
	for _, value := range values {
		sent = append(sent, &kgo.Record{Topic: topic, Partition: 0, Value: []byte(value)})
	}
	return transactor.client.ProduceSync(ctx, sent...).FirstErr()
}

func (transactor *transactor) End(commit bool) error {
	ctx, cancel := inTime()
	defer cancel()
	return transactor.client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

// Transform needs a session, which has a client of its own: the transactional id goes over to it, and comes back.
func (transactor *transactor) Transform(group, source, target string, count int, commit bool) error {
	transactor.client.Close()
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(transactor.seeds...), kgo.TransactionalID(transactor.id),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumerGroup(group), kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return err
	}
	if err := transform(session, target, count, commit); err != nil {
		session.Close()
		return err
	}
	session.Close()
	reopened, err := open(transactor.seeds, transactor.id)
	if err == nil {
		transactor.client = reopened.client
	}
	return err
}

func transform(session *kgo.GroupTransactSession, target string, count int, commit bool) error {
	ctx, cancel := inTime()
	defer cancel()
	read := []*kgo.Record{}
	for len(read) < count {
		fetched := session.PollRecords(ctx, count-len(read))
		if errors := fetched.Errors(); len(errors) > 0 {
			return errors[0].Err
		}
		read = append(read, fetched.Records()...)
	}
	if err := session.Begin(); err != nil {
		return err
	}
	sent := []*kgo.Record{}
	for _, each := range read {
		sent = append(sent, &kgo.Record{Topic: target, Value: []byte(strings.ToUpper(string(each.Value)))})
	}
	if err := session.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return err
	}
	_, err := session.End(context.Background(), kgo.TransactionEndTry(commit))
	return err
}

func (transactor *transactor) Close() {
	transactor.client.Close()
}
