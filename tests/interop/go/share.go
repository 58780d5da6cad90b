package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var shareCases = []testCase{
	{"share-accept", shareAccept},
	{"share-types", shareTypes},
	{"share-renew", shareRenew},
	{"share-close-releases", shareCloseReleases},
	{"share-two-members", shareTwoMembers},
	{"share-strict-limit", shareStrictLimit},
}

type shareSetup struct {
	topic, group string
}

func (b *broker) share(ctx context.Context, values []string, settings ...string) (shareSetup, error) {
	topic, err := b.topic(ctx, "share", 1)
	if err != nil {
		return shareSetup{}, err
	}
	group, err := b.shareGroup(ctx, settings...)
	if err != nil {
		return shareSetup{}, err
	}
	return shareSetup{topic, group}, b.produce(ctx, topic, values...)
}

// member returns a share consumer that counts failed acknowledgements.
func (b *broker) member(s shareSetup, failures *atomic.Int64, opts ...kgo.Opt) (*kgo.Client, error) {
	return b.client(append(opts, kgo.ShareGroup(s.group), kgo.ConsumeTopics(s.topic),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if !results.Ok() {
				failures.Add(1)
			}
		}))...)
}

// take polls until `count` records came.
func take(ctx context.Context, cl *kgo.Client, count int) ([]*kgo.Record, error) {
	var all []*kgo.Record
	for len(all) < count {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("only %d of %d records came", len(all), count)
		}
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		all = append(all, fetches.Records()...)
	}
	return all, nil
}

// nothing sees that no record comes for a while.
func nothing(ctx context.Context, cl *kgo.Client) error {
	pollCtx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	fetches := cl.PollFetches(pollCtx)
	if n := fetches.NumRecords(); n != 0 {
		return fmt.Errorf("%d records where none should come", n)
	}
	return nil
}

func flush(ctx context.Context, cl *kgo.Client, failures *atomic.Int64) error {
	if err := cl.FlushAcks(ctx); err != nil {
		return err
	}
	return same("failed acknowledgements", int64(0), failures.Load())
}

func shareAccept(ctx context.Context, b *broker) error {
	values := numbered(100)
	s, err := b.share(ctx, values)
	if err != nil {
		return err
	}
	var failures atomic.Int64
	cl, err := b.member(s, &failures)
	if err != nil {
		return err
	}
	defer cl.Close()
	taken, err := take(ctx, cl, len(values))
	if err != nil {
		return err
	}
	var seen []string
	for _, r := range taken {
		seen = append(seen, string(r.Value))
		r.Ack(kgo.AckAccept)
	}
	return errors.Join(same("values", values, seen), flush(ctx, cl, &failures), nothing(ctx, cl))
}

func shareTypes(ctx context.Context, b *broker) error {
	s, err := b.share(ctx, numbered(4))
	if err != nil {
		return err
	}
	var failures atomic.Int64
	cl, err := b.member(s, &failures)
	if err != nil {
		return err
	}
	defer cl.Close()
	taken, err := take(ctx, cl, 4)
	if err != nil {
		return err
	}
	for i, status := range []kgo.AckStatus{kgo.AckAccept, kgo.AckRelease, kgo.AckReject, kgo.AckRelease} {
		taken[i].Ack(status)
	}
	if err := flush(ctx, cl, &failures); err != nil {
		return err
	}
	again, err := take(ctx, cl, 2)
	if err != nil {
		return err
	}
	var seen []string
	for _, r := range again {
		seen = append(seen, string(r.Value))
		if err := same("delivery count", int32(2), r.DeliveryCount()); err != nil {
			return err
		}
		r.Ack(kgo.AckAccept)
	}
	slices.Sort(seen)
	return errors.Join(same("released records", []string{"v1", "v3"}, seen), flush(ctx, cl, &failures), nothing(ctx, cl))
}

func shareRenew(ctx context.Context, b *broker) error {
	s, err := b.share(ctx, []string{"long-work"}, "share.record.lock.duration.ms=1500")
	if err != nil {
		return err
	}
	var failures atomic.Int64
	cl, err := b.member(s, &failures)
	if err != nil {
		return err
	}
	defer cl.Close()
	taken, err := take(ctx, cl, 1)
	if err != nil {
		return err
	}
	for range 3 {
		time.Sleep(700 * time.Millisecond)
		taken[0].Ack(kgo.AckRenew)
		if err := flush(ctx, cl, &failures); err != nil {
			return err
		}
	}
	taken[0].Ack(kgo.AckAccept)
	return flush(ctx, cl, &failures)
}

func shareCloseReleases(ctx context.Context, b *broker) error {
	s, err := b.share(ctx, []string{"a"})
	if err != nil {
		return err
	}
	var failures atomic.Int64
	first, err := b.member(s, &failures)
	if err != nil {
		return err
	}
	taken, err := take(ctx, first, 1)
	if err != nil {
		first.Close()
		return err
	}
	taken[0].Ack(kgo.AckRelease)
	first.Close()
	second, err := b.member(s, &failures)
	if err != nil {
		return err
	}
	defer second.Close()
	again, err := take(ctx, second, 1)
	if err != nil {
		return err
	}
	again[0].Ack(kgo.AckAccept)
	return errors.Join(same("delivery count", int32(2), again[0].DeliveryCount()), flush(ctx, second, &failures))
}

func shareTwoMembers(ctx context.Context, b *broker) error {
	s, err := b.share(ctx, nil)
	if err != nil {
		return err
	}
	const total = 200
	var failures atomic.Int64
	values := make(chan string, total*2)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range 2 {
		cl, err := b.member(s, &failures, kgo.ShareMaxRecords(10))
		if err != nil {
			return err
		}
		defer cl.Close()
		go func() {
			for ctx.Err() == nil {
				cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
					r.Ack(kgo.AckAccept)
					values <- string(r.Value)
				})
			}
		}()
	}
	if err := b.produce(ctx, s.topic, numbered(total)...); err != nil {
		return err
	}
	deliveries := map[string]int{}
	for len(deliveries) < total {
		select {
		case value := <-values:
			deliveries[value]++
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d records came", len(deliveries), total)
		}
	}
	for value, count := range deliveries {
		if count != 1 {
			return fmt.Errorf("%s was delivered %d times", value, count)
		}
	}
	return nil
}

func shareStrictLimit(ctx context.Context, b *broker) error {
	s, err := b.share(ctx, numbered(10))
	if err != nil {
		return err
	}
	var failures atomic.Int64
	cl, err := b.member(s, &failures, kgo.ShareMaxRecords(3), kgo.ShareMaxRecordsStrict())
	if err != nil {
		return err
	}
	defer cl.Close()
	for seen := 0; seen < 10; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("only %d of 10 records came", seen)
		}
		if 3 < fetches.NumRecords() {
			return fmt.Errorf("%d records at once", fetches.NumRecords())
		}
		seen += fetches.NumRecords()
		fetches.EachRecord(func(r *kgo.Record) { r.Ack(kgo.AckAccept) })
	}
	return flush(ctx, cl, &failures)
}
