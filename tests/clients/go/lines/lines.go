// Package lines is what the programs for Go's clients share: a JSON object in, a JSON object out, per command.
// tests/clients/line_client.py has the words.
package lines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// Deadline is how long a command may take.
const Deadline = 60 * time.Second

// Header is a name and a value that may be null.
type Header struct {
	Name  string
	Value *string
}

// MarshalJSON writes [name, value].
func (header Header) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{header.Name, header.Value})
}

// UnmarshalJSON reads [name, value].
func (header *Header) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&header.Name, &header.Value})
}

// Record is one record, before it is written (partition and offset do not count) or as it was read.
type Record struct {
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Key       *string  `json:"key"`
	Value     *string  `json:"value"`
	Headers   []Header `json:"headers"`
	Timestamp *int64   `json:"timestamp"`
}

// Kind is what tells one producer from another.
type Kind struct {
	Codec      string `json:"codec"`
	Acks       string `json:"acks"`
	Idempotent bool   `json:"idempotent"`
}

type command struct {
	Do         string            `json:"do"`
	Topic      string            `json:"topic"`
	Partitions int32             `json:"partitions"`
	Total      int               `json:"total"`
	Configs    map[string]string `json:"configs"`
	Key        string            `json:"key"`
	Value      string            `json:"value"`
	Records    []Record          `json:"records"`
	Offset     int64             `json:"offset"`
	Count      int               `json:"count"`
	Timestamp  int64             `json:"timestamp"`
	Group      string            `json:"group"`
	Member     string            `json:"member"`
	Assignment [][]int32         `json:"assignment"`
	KeepCount  bool              `json:"keep_count"`
	Numbers    []int32           `json:"numbers"`
	Committed  bool              `json:"committed"`

	Transactor      string   `json:"transactor"`
	TransactionalID string   `json:"transactional_id"`
	Values          []string `json:"values"`
	Target          string   `json:"target"`
	Commit          bool     `json:"commit"`
	Kind
}

// Driver is a client library behind the commands.
type Driver interface {
	Module() string
	CreateTopic(topic string, partitions int32, configs map[string]*string) error
	Topics() (map[string]int, error)
	AddPartitions(topic string, total int) error
	SetConfig(topic, key, value string) error
	Config(topic, key string) (string, error)
	DeleteTopic(topic string) error
	Produce(topic string, kind Kind, records []Record) ([]int64, error)
	Fetch(topic string, offset int64, count int) ([]Record, error)
	OffsetAt(topic string, timestamp int64) (int64, error)
	Join(group, topic string) (Member, error)
}

// Move is how far a partition has got that is being moved.
type Move struct {
	Replicas []int32 `json:"replicas"`
	Adding   []int32 `json:"adding"`
	Removing []int32 `json:"removing"`
}

// Mover is a Driver that moves partitions, too.
type Mover interface {
	// Assign says where each of a topic's first partitions is to be; nil takes one back to where it was.
	// With keepCount, another number of replicas is refused.
	Assign(topic string, assignment [][]int32, keepCount bool) error
	// Moves returns which of these partitions are being moved.
	Moves(topic string, partitions []int32) (map[int32]Move, error)
}

// Transacting is a Driver that has transactions, too.
type Transacting interface {
	// JoinCommitted is Join at read_committed.
	JoinCommitted(group, topic string) (Member, error)
	// Open makes a producer with a transactional id.
	Open(transactionalID string) (Transactor, error)
}

// Transactor is a producer with a transactional id.
type Transactor interface {
	Begin() error
	// Send writes values to partition 0 and waits until each is answered.
	Send(topic string, values []string) error
	End(commit bool) error
	// Transform reads so many records as a group at read_committed, and writes each value in capitals to partition 0
	// of the target; the values and the group's offsets are one transaction.
	Transform(group, source, target string, count int, commit bool) error
	Close()
}

// Member is a consumer in a group, which reads in the background.
type Member interface {
	Look() ([]int32, []Record)
	Commit() error
	Close() error
}

// Seen collects what a member owns and reads.
type Seen struct {
	mutex   sync.Mutex
	owned   map[int32]bool
	records []Record
}

// Own adds partitions.
func (seen *Seen) Own(partitions []int32) {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	if seen.owned == nil {
		seen.owned = map[int32]bool{}
	}
	for _, partition := range partitions {
		seen.owned[partition] = true
	}
}

// Disown takes partitions away.
func (seen *Seen) Disown(partitions []int32) {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	for _, partition := range partitions {
		delete(seen.owned, partition)
	}
}

// Read adds a record.
func (seen *Seen) Read(record Record) {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	seen.records = append(seen.records, record)
}

// Look returns what is owned, and what was read since the last time.
func (seen *Seen) Look() ([]int32, []Record) {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	owned := []int32{}
	for partition := range seen.owned {
		owned = append(owned, partition)
	}
	records := append([]Record{}, seen.records...)
	seen.records = nil
	return owned, records
}

// Text returns a string for bytes; nil for nil.
func Text(value []byte) *string {
	if value == nil {
		return nil
	}
	text := string(value)
	return &text
}

// Bytes returns bytes for a string; nil for nil.
func Bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// Serve answers commands until there are no more.
func Serve(driver Driver) {
	members := map[string]Member{}
	transactors := map[string]Transactor{}
	commands := bufio.NewReader(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := commands.ReadBytes('\n')
		if err != nil {
			return
		}
		answer, err := respond(driver, members, transactors, line)
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return
		}
	}
}

func respond(
	driver Driver, members map[string]Member, transactors map[string]Transactor, line []byte,
) (map[string]any, error) {
	var asked command
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	switch asked.Do {
	case "version":
		return map[string]any{"version": version(driver.Module())}, nil
	case "create_topic":
		configs := map[string]*string{}
		for key, value := range asked.Configs {
			configs[key] = &value
		}
		return nothing(driver.CreateTopic(asked.Topic, asked.Partitions, configs))
	case "topics":
		topics, err := driver.Topics()
		return map[string]any{"topics": topics}, err
	case "add_partitions":
		return nothing(driver.AddPartitions(asked.Topic, asked.Total))
	case "set_config":
		return nothing(driver.SetConfig(asked.Topic, asked.Key, asked.Value))
	case "config":
		value, err := driver.Config(asked.Topic, asked.Key)
		return map[string]any{"value": value}, err
	case "delete_topic":
		return nothing(driver.DeleteTopic(asked.Topic))
	case "produce":
		offsets, err := driver.Produce(asked.Topic, asked.Kind, asked.Records)
		return map[string]any{"offsets": offsets}, err
	case "fetch":
		records, err := driver.Fetch(asked.Topic, asked.Offset, asked.Count)
		return map[string]any{"records": records}, err
	case "offset_at":
		offset, err := driver.OffsetAt(asked.Topic, asked.Timestamp)
		return map[string]any{"offset": offset}, err
	case "join":
		member, err := join(driver, asked)
		members[asked.Member] = member
		return nothing(err)
	case "assign", "moves":
		return respondForMover(driver, asked)
	case "txn_open", "txn_begin", "txn_send", "txn_end", "txn_transform", "txn_close":
		return nothing(respondForTransactor(driver, transactors, asked))
	}
	return respondForMember(members[asked.Member], asked)
}

func respondForMover(driver Driver, asked command) (map[string]any, error) {
	mover, ok := driver.(Mover)
	if !ok {
		return nil, fmt.Errorf("%s moves no partitions", driver.Module())
	}
	if asked.Do == "assign" {
		return nothing(mover.Assign(asked.Topic, asked.Assignment, asked.KeepCount))
	}
	moves, err := mover.Moves(asked.Topic, asked.Numbers)
	return map[string]any{"moves": moves}, err
}

func join(driver Driver, asked command) (Member, error) {
	if !asked.Committed {
		return driver.Join(asked.Group, asked.Topic)
	}
	transacting, ok := driver.(Transacting)
	if !ok {
		return nil, fmt.Errorf("%s has no transactions", driver.Module())
	}
	return transacting.JoinCommitted(asked.Group, asked.Topic)
}

func respondForTransactor(driver Driver, transactors map[string]Transactor, asked command) error {
	transacting, ok := driver.(Transacting)
	if !ok {
		return fmt.Errorf("%s has no transactions", driver.Module())
	}
	if asked.Do == "txn_open" {
		opened, err := transacting.Open(asked.TransactionalID)
		transactors[asked.Transactor] = opened
		return err
	}
	transactor := transactors[asked.Transactor]
	if transactor == nil {
		return fmt.Errorf("no such transactor: %s", asked.Transactor)
	}
	switch asked.Do {
	case "txn_begin":
		return transactor.Begin()
	case "txn_send":
		return transactor.Send(asked.Topic, asked.Values)
	case "txn_end":
		return transactor.End(asked.Commit)
	case "txn_transform":
		return transactor.Transform(asked.Group, asked.Topic, asked.Target, asked.Count, asked.Commit)
	}
	transactor.Close()
	return nil
}

func respondForMember(member Member, asked command) (map[string]any, error) {
	if member == nil {
		return nil, fmt.Errorf("no such command, or no such member: %s", asked.Do)
	}
	switch asked.Do {
	case "look":
		owned, records := member.Look()
		return map[string]any{"owned": owned, "records": records}, nil
	case "commit":
		return nothing(member.Commit())
	case "leave":
		return nothing(member.Close())
	}
	return nil, fmt.Errorf("no such command: %s", asked.Do)
}

func nothing(err error) (map[string]any, error) {
	return map[string]any{}, err
}

func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, each := range info.Deps {
			if each.Path == module {
				return each.Version
			}
		}
	}
	return "unknown"
}
