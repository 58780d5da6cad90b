package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var logCases = []testCase{
	{"api-versions", apiVersions},
	{"produce-and-consume", produceAndConsume},
	{"compression", compression},
}

// apiVersions sees that a client that knows nothing of our keys reads the list, in every version.
func apiVersions(ctx context.Context, b *broker) error {
	cl, err := b.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return err
	}
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "interop", "1"
	answer, err := request.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	keys := map[int16]bool{}
	for _, api := range answer.ApiKeys {
		keys[api.ApiKey] = true
	}
	return same("ShareFetch and EndTxn announced", true, keys[78] && keys[26])
}

func produceAndConsume(ctx context.Context, b *broker) error {
	topic, err := b.topic(ctx, "round", 1)
	if err != nil {
		return err
	}
	values := numbered(300)
	if err := b.produce(ctx, topic, values...); err != nil {
		return err
	}
	read, err := b.readValues(ctx, topic, kgo.ReadUncommitted(), len(values))
	if err != nil {
		return err
	}
	return same("values", values, read)
}

func compression(ctx context.Context, b *broker) error {
	for _, codec := range []kgo.CompressionCodec{kgo.GzipCompression(), kgo.SnappyCompression(),
		kgo.Lz4Compression(), kgo.ZstdCompression()} {
		topic, err := b.topic(ctx, "compressed", 1)
		if err != nil {
			return err
		}
		cl, err := b.client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec))
		if err != nil {
			return err
		}
		values := numbered(200)
		err = cl.ProduceSync(ctx, records(values)...).FirstErr()
		cl.Close()
		if err != nil {
			return err
		}
		read, err := b.readValues(ctx, topic, kgo.ReadCommitted(), len(values))
		if err != nil {
			return err
		}
		if err := same("values", values, read); err != nil {
			return err
		}
	}
	return nil
}
