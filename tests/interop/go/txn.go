package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var txnCases = []testCase{
	{"txn-commit-and-abort", txnCommitAndAbort},
	{"txn-many", txnMany},
	{"txn-fenced", txnFenced},
}

func (b *broker) transactional(topic, id string) (*kgo.Client, error) {
	return b.client(kgo.DefaultProduceTopic(topic), kgo.TransactionalID(id))
}

// inTransaction produces values in one transaction and ends it.
func inTransaction(ctx context.Context, cl *kgo.Client, end kgo.TransactionEndTry, values ...string) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := cl.ProduceSync(ctx, records(values)...).FirstErr(); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, end)
}

func txnCommitAndAbort(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "txn", 1)
	if err != nil {
		return err
	}
	cl, err := b.transactional(topic, b.fresh("id"))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := inTransaction(ctx, cl, kgo.TryCommit, "a", "b"); err != nil {
		return err
	}
	if err := inTransaction(ctx, cl, kgo.TryAbort, "c"); err != nil {
		return err
	}
	if err := inTransaction(ctx, cl, kgo.TryCommit, "d"); err != nil {
		return err
	}
	committed, err := b.readValues(ctx, topic, kgo.ReadCommitted(), 3)
	if err != nil {
		return err
	}
	if err := same("committed", []string{"a", "b", "d"}, committed); err != nil {
		return err
	}
	all, err := b.readValues(ctx, topic, kgo.ReadUncommitted(), 4)
	if err != nil {
		return err
	}
	return same("uncommitted", []string{"a", "b", "c", "d"}, all)
}

func txnMany(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "txns", 1)
	if err != nil {
		return err
	}
	cl, err := b.transactional(topic, b.fresh("id"))
	if err != nil {
		return err
	}
	defer cl.Close()
	var committed []string
	for i := range 30 {
		value := fmt.Sprintf("v%d", i)
		end := kgo.TryCommit
		if i%3 == 2 {
			end = kgo.TryAbort
		} else {
			committed = append(committed, value)
		}
		if err := inTransaction(ctx, cl, end, value); err != nil {
			return err
		}
	}
	read, err := b.readValues(ctx, topic, kgo.ReadCommitted(), len(committed))
	if err != nil {
		return err
	}
	return same("committed", committed, read)
}

func txnFenced(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "fenced", 1)
	if err != nil {
		return err
	}
	id := b.fresh("id")
	old, err := b.transactional(topic, id)
	if err != nil {
		return err
	}
	defer old.Close()
	if err := old.BeginTransaction(); err != nil {
		return err
	}
	if err := old.ProduceSync(ctx, kgo.StringRecord("old")).FirstErr(); err != nil {
		return err
	}
	young, err := b.transactional(topic, id)
	if err != nil {
		return err
	}
	defer young.Close()
	if err := inTransaction(ctx, young, kgo.TryCommit, "young"); err != nil {
		return err
	}
	endCtx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := old.EndTransaction(endCtx, kgo.TryCommit); err == nil {
		return fmt.Errorf("the old producer could commit")
	}
	committed, err := b.readValues(ctx, topic, kgo.ReadCommitted(), 1)
	if err != nil {
		return err
	}
	return same("committed", []string{"young"}, committed)
}
