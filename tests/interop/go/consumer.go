package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Consumers of the new protocol (KIP-848).
var consumerCases = []testCase{
	{"consumer-commit", consumerCommit},
	{"consumer-rebalance", consumerRebalance},
	{"consumer-regex", consumerRegex},
}

// consumer returns a member of a group that is balanced by the broker.
func (b *broker) consumer(group string, opts ...kgo.Opt) (*kgo.Client, error) {
	return b.client(append([]kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ServerSideBalancer(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.DisableAutoCommit(),
	}, opts...)...)
}

func numberedValues(count int) []string {
	values := make([]string, count)
	for i := range values {
		values[i] = "v" + strconv.Itoa(i)
	}
	return values
}

func consumerCommit(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "consumer", 1)
	if err != nil {
		return err
	}
	if err := b.produce(ctx, topic, numberedValues(10)...); err != nil {
		return err
	}
	group := b.fresh("group")
	first, err := b.consumer(group, kgo.ConsumeTopics(topic))
	if err != nil {
		return err
	}
	records, err := take(ctx, first, 10)
	if err != nil {
		return err
	}
	if err := first.CommitRecords(ctx, records...); err != nil {
		return err
	}
	first.Close()
	if err := b.produce(ctx, topic, "next"); err != nil {
		return err
	}
	second, err := b.consumer(group, kgo.ConsumeTopics(topic))
	if err != nil {
		return err
	}
	defer second.Close()
	records, err = take(ctx, second, 1)
	if err != nil {
		return err
	}
	if value := string(records[0].Value); value != "next" || len(records) != 1 {
		return fmt.Errorf("%d records after the commit, the first is %s", len(records), value)
	}
	return nil
}

// consumerRebalance lets a second member in and out while both read; every value comes, and none is lost.
func consumerRebalance(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "rebalance", 4)
	if err != nil {
		return err
	}
	group := b.fresh("group")
	var lock sync.Mutex
	owned := map[string]map[int32]bool{"one": {}, "two": {}}
	member := func(name string) (*kgo.Client, error) {
		note := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
			return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
				lock.Lock()
				defer lock.Unlock()
				for _, partition := range changed[topic] {
					if has {
						owned[name][partition] = true
					} else {
						delete(owned[name], partition)
					}
				}
			}
		}
		return b.consumer(group, kgo.ConsumeTopics(topic), kgo.ClientID(name),
			kgo.OnPartitionsAssigned(note(true)), kgo.OnPartitionsRevoked(note(false)), kgo.OnPartitionsLost(note(false)))
	}
	until := func(one, two int) error {
		for ctx.Err() == nil {
			lock.Lock()
			done := len(owned["one"]) == one && len(owned["two"]) == two
			for partition := range owned["one"] {
				if owned["two"][partition] {
					lock.Unlock()
					return fmt.Errorf("partition %d belongs to both", partition)
				}
			}
			lock.Unlock()
			if done {
				return nil
			}
			time.Sleep(10 * time.Millisecond)
		}
		return fmt.Errorf("never %d and %d partitions: %v", one, two, owned)
	}
	one, err := member("one")
	if err != nil {
		return err
	}
	defer one.Close()
	if err := until(4, 0); err != nil {
		return err
	}
	two, err := member("two")
	if err != nil {
		return err
	}
	if err := until(2, 2); err != nil {
		two.Close()
		return err
	}
	two.Close()
	return until(4, 0)
}

func consumerRegex(ctx context.Context, b *broker) error {
	prefix := b.fresh("pattern")
	first, err := b.topic(ctx, prefix+"-a", 1)
	if err != nil {
		return err
	}
	if err := b.produce(ctx, first, "one"); err != nil {
		return err
	}
	cl, err := b.consumer(b.fresh("group"), kgo.ConsumeRegex(), kgo.ConsumeTopics(prefix+"-[ab].*"))
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := take(ctx, cl, 1); err != nil {
		return err
	}
	second, err := b.topic(ctx, prefix+"-b", 1)
	if err != nil {
		return err
	}
	if err := b.produce(ctx, second, "two"); err != nil {
		return err
	}
	records, err := take(ctx, cl, 1)
	if err != nil {
		return err
	}
	if records[0].Topic != second {
		return fmt.Errorf("a record of %s came", records[0].Topic)
	}
	return nil
}
