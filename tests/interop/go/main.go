// Cases for franz-go. They run against the broker at BOOTSTRAP; arguments name cases, none means all.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const caseTimeout = 60 * time.Second

type broker struct {
	bootstrap string
	names     int
}

type testCase struct {
	name string
	run  func(ctx context.Context, b *broker) error
}

func main() {
	cases := slices.Concat(logCases, shareCases, consumerCases, txnCases, groupCases)
	if wanted := os.Args[1:]; len(wanted) > 0 {
		cases = slices.DeleteFunc(cases, func(c testCase) bool { return !slices.Contains(wanted, c.name) })
	}
	b := &broker{bootstrap: os.Getenv("BOOTSTRAP")}
	failed := 0
	for _, c := range cases {
		start := time.Now()
		if err := runCase(c, b); err != nil {
			failed++
			fmt.Printf("FAILED %s: %v\n", c.name, err)
		} else {
			fmt.Printf("ok %s (%d ms)\n", c.name, time.Since(start).Milliseconds())
		}
	}
	fmt.Printf("cases %d\n", len(cases))
	if failed > 0 || len(cases) == 0 {
		os.Exit(1)
	}
}

func runCase(c testCase, b *broker) error {
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	defer cancel()
	return c.run(ctx, b)
}

// fresh returns a name that no other case uses.
func (b *broker) fresh(prefix string) string {
	b.names++
	return fmt.Sprintf("%s-go-%d-%d", prefix, os.Getpid(), b.names)
}

func (b *broker) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.bootstrap)}, opts...)...)
}

// topic creates a topic and waits until it has leaders.
func (b *broker) topic(ctx context.Context, prefix string, partitions int32) (string, error) {
	name := b.fresh(prefix)
	cl, err := b.client()
	if err != nil {
		return "", err
	}
	defer cl.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics, request.TimeoutMillis = []kmsg.CreateTopicsRequestTopic{topic}, 10_000
	answer, err := request.RequestWith(ctx, cl)
	if err != nil {
		return "", err
	}
	if code := answer.Topics[0].ErrorCode; code != 0 {
		return "", fmt.Errorf("creating %s: error code %d", name, code)
	}
	for ctx.Err() == nil {
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = kmsg.StringPtr(name)
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Topics = []kmsg.MetadataRequestTopic{asked}
		answer, err := metadata.RequestWith(ctx, cl)
		if err != nil {
			return "", err
		}
		ready := answer.Topics[0].ErrorCode == 0
		for _, p := range answer.Topics[0].Partitions {
			ready = ready && p.ErrorCode == 0
		}
		if ready {
			return name, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return "", ctx.Err()
}

// shareGroup returns a share group that starts at the beginning of its topics, with more settings.
func (b *broker) shareGroup(ctx context.Context, settings ...string) (string, error) {
	name := b.fresh("share")
	cl, err := b.client()
	if err != nil {
		return "", err
	}
	defer cl.Close()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, name
	for _, setting := range append([]string{"share.auto.offset.reset=earliest"}, settings...) {
		key, value, _ := strings.Cut(setting, "=")
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op, config.Value = key, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(value)
		resource.Configs = append(resource.Configs, config)
	}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = []kmsg.IncrementalAlterConfigsRequestResource{resource}
	answer, err := request.RequestWith(ctx, cl)
	if err != nil {
		return "", err
	}
	if code := answer.Resources[0].ErrorCode; code != 0 {
		return "", fmt.Errorf("configs of %s: error code %d", name, code)
	}
	time.Sleep(100 * time.Millisecond) // Kafka applies it after its answer.
	return name, nil
}

// produce sends values to a topic and waits for all.
func (b *broker) produce(ctx context.Context, topic string, values ...string) error {
	cl, err := b.client(kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.ProduceSync(ctx, records(values)...).FirstErr()
}

func records(values []string) []*kgo.Record {
	var all []*kgo.Record
	for _, value := range values {
		all = append(all, kgo.StringRecord(value))
	}
	return all
}

// readValues reads a topic from its start, as this isolation level sees it, until `count` records came and no more.
func (b *broker) readValues(ctx context.Context, topic string, level kgo.IsolationLevel, count int) ([]string, error) {
	cl, err := b.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var values []string
	poll := func(limit time.Duration) error {
		pollCtx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		fetches := cl.PollFetches(pollCtx)
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		for _, e := range fetches.Errors() {
			if pollCtx.Err() == nil {
				return e.Err
			}
		}
		return nil
	}
	for len(values) < count && ctx.Err() == nil {
		if err := poll(5 * time.Second); err != nil {
			return nil, err
		}
	}
	return values, poll(300 * time.Millisecond)
}

func same[T any](what string, expected, actual T) error {
	if e, a := fmt.Sprint(expected), fmt.Sprint(actual); e != a {
		return fmt.Errorf("%s: expected %s, got %s", what, e, a)
	}
	return nil
}

func numbered(count int) []string {
	var values []string
	for i := range count {
		values = append(values, fmt.Sprintf("v%d", i))
	}
	return values
}
