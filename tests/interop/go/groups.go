package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var groupCases = []testCase{
	{"group-consume-and-commit", groupConsumeAndCommit},
	{"group-of-two", groupOfTwo},
	{"group-transact-session", groupTransactSession},
}

func (b *broker) groupMember(topic, group string, opts ...kgo.Opt) (*kgo.Client, error) {
	return b.client(append([]kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(200 * time.Millisecond),
	}, opts...)...)
}

// poll reads values until there are count.
func poll(ctx context.Context, cl interface {
	PollFetches(context.Context) kgo.Fetches
}, count int) ([]string, error) {
	var values []string
	for len(values) < count {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return values, err
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values, nil
}

func (b *broker) fill(ctx context.Context, topic string, values ...string) error {
	cl, err := b.client(kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.ProduceSync(ctx, records(values)...).FirstErr()
}

func groupConsumeAndCommit(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "group", 1)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, topic, "a", "b"); err != nil {
		return err
	}
	group := b.fresh("group")
	for _, round := range [][]string{{"a", "b"}, {"c"}} {
		cl, err := b.groupMember(topic, group)
		if err != nil {
			return err
		}
		values, err := poll(ctx, cl, len(round))
		if err == nil {
			err = cl.CommitUncommittedOffsets(ctx)
		}
		cl.Close()
		if err != nil {
			return err
		}
		if err := same("values", round, values); err != nil {
			return err
		}
		if err := b.fill(ctx, topic, "c"); err != nil {
			return err
		}
	}
	return nil
}

func groupOfTwo(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "pair", 2)
	if err != nil {
		return err
	}
	group := b.fresh("group")
	assigned := make(chan int, 100)
	count := kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
		assigned <- len(got[topic])
	})
	first, err := b.groupMember(topic, group, count)
	if err != nil {
		return err
	}
	defer first.Close()
	if err := awaitCount(ctx, assigned, 2); err != nil {
		return err
	}
	second, err := b.groupMember(topic, group, count)
	if err != nil {
		return err
	}
	defer second.Close()
	return awaitCount(ctx, assigned, 1)
}

func awaitCount(ctx context.Context, counts <-chan int, wanted int) error {
	for {
		select {
		case got := <-counts:
			if got == wanted {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("no member was assigned %d partitions", wanted)
		}
	}
}

// groupTransactSession consumes and produces in transactions, of which the first is aborted.
func groupTransactSession(ctx context.Context, b *broker) error {
	input, err := b.topic(ctx, "in", 1)
	if err != nil {
		return err
	}
	output, err := b.topic(ctx, "out", 1)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, input, "a", "b"); err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(b.bootstrap),
		kgo.TransactionalID(b.fresh("id")),
		kgo.ConsumerGroup(b.fresh("group")),
		kgo.ConsumeTopics(input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.DefaultProduceTopic(output),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := session.Begin(); err != nil {
			return err
		}
		values, err := poll(ctx, session, 2)
		if err != nil {
			return err
		}
		if err := same("input", []string{"a", "b"}, slices.Compact(values)); err != nil {
			return err
		}
		if err := session.ProduceSync(ctx, records(values)...).FirstErr(); err != nil {
			return err
		}
		committed, err := session.End(ctx, end)
		if err != nil {
			return err
		}
		if committed != bool(end) {
			return fmt.Errorf("committed %v, wanted %v", committed, bool(end))
		}
	}
	values, err := b.readValues(ctx, output, kgo.ReadCommitted(), 2)
	if err != nil {
		return err
	}
	return same("output", []string{"a", "b"}, values)
}
