use std::sync::Arc;

use sharemark_protocol::{ErrorCode, NodeId};

use super::*;

fn build(builder: ConfigBuilder) -> Result<BrokerConfig, String> {
    let mut unknown = Vec::new();
    let built = builder.build(&mut unknown).map_err(|error| error.to_string());
    assert_eq!(unknown, Vec::<String>::new());
    built
}

fn kafka() -> DynamicConfigs {
    DynamicConfigs::new(build(BrokerConfig::builder().profile(Profile::Kafka44)).unwrap())
}

fn topic(name: &str) -> ConfigResource {
    ConfigResource::Topic(name.into())
}

fn group(name: &str) -> ConfigResource {
    ConfigResource::Group(name.into())
}

fn set(name: &str, value: &str) -> (String, AlterOperation) {
    (name.to_owned(), AlterOperation::Set(value.to_owned()))
}

fn alter(
    configs: &mut DynamicConfigs,
    resource: &ConfigResource,
    operation: (String, AlterOperation),
) -> Result<(), (ErrorCode, String)> {
    match configs.decide_alter(resource, &[operation]) {
        Ok(change) => {
            configs.replay(&change);
            Ok(())
        }
        Err(error) => Err((error.code(), error.to_string())),
    }
}

#[test]
fn tables_are_in_order_and_their_defaults_follow_their_rules() {
    for profile in [Profile::Latest, Profile::Kafka44] {
        let tables: [Vec<ConfigKey>; 4] = [
            profile.broker_keys().filter(|key| !key.name.starts_with("share.txn.")).collect(),
            profile.topic_keys().collect(),
            profile.group_keys().collect(),
            profile.client_metrics_keys().collect(),
        ];
        for keys in &tables {
            assert!(keys.is_sorted_by(|left, right| left.name < right.name));
        }
        for key in tables.iter().flatten() {
            if let Some(default) = key.default {
                let value = key.parse(default).unwrap_or_else(|error| panic!("{}: {error}", key.name));
                assert_eq!(value.to_string(), default, "{}", key.name);
            }
            for synonym in key.synonyms {
                assert!(profile.broker_key(synonym.name).is_some(), "{}", synonym.name);
            }
        }
    }
}

#[test]
fn settings_name_known_properties() {
    for name in BrokerSettings::PROPERTIES {
        assert!(Profile::Latest.broker_key(name).is_some(), "{name}");
    }
}

#[test]
fn refusals_have_kafkas_words() {
    let cases = [
        (
            "retention.ms",
            "abc",
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "compression.type",
            "foo",
            "Invalid value foo for configuration compression.type: String must be one of: uncompressed, zstd, lz4, \
             snappy, gzip, producer",
        ),
        (
            "cleanup.policy",
            "foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("cleanup.policy", "delete,,compact", "Configuration 'cleanup.policy' values must not be empty."),
        (
            "min.cleanable.dirty.ratio",
            "2",
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "compression.gzip.level",
            "11",
            "Invalid value 11 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "max.message.bytes",
            "99999999999",
            "Invalid value 99999999999 for configuration max.message.bytes: Not a number of type INT",
        ),
    ];
    for (name, value, text) in cases {
        let key = Profile::Kafka44.topic_key(name).unwrap();
        assert_eq!(key.parse(value).unwrap_err().to_string(), text);
    }
    let key = Profile::Kafka44.topic_key("cleanup.policy").unwrap();
    assert_eq!(key.parse(" delete , compact ").unwrap().to_string(), "delete,compact");
    assert_eq!(key.parse("delete,compact,delete").unwrap().to_string(), "delete,compact");
    assert_eq!(key.parse("").unwrap().to_string(), "");
}

#[test]
fn start_configurations_that_are_refused() {
    let builder = BrokerConfig::builder;
    let kafka = || builder().profile(Profile::Kafka44);
    let cases = [
        (
            kafka().property("group.share.delivery.count.limit", "1"),
            "Invalid value 1 for configuration group.share.delivery.count.limit: Value must be at least 2",
        ),
        (
            kafka().property("group.share.record.lock.duration.ms", "1000"),
            "group.share.record.lock.duration.ms must be greater than or equal to \
             group.share.min.record.lock.duration.ms",
        ),
        (
            builder().property("group.share.session.timeout.ms", "5000"),
            "group.share.session.timeout.ms must be greater than group.share.heartbeat.interval.ms",
        ),
        (builder().listen("localhost"), "--listen: \"localhost\" is not of the form HOST:PORT"),
        (builder().listen("localhost:99999"), "--listen: \"localhost:99999\" is not of the form HOST:PORT"),
        (builder().listen("h:65535").brokers(2), "the nodes' successive ports end above 65535"),
        (builder().brokers(0), "--brokers: a process runs 1 to 64 nodes, not 0"),
        (builder().first_node_id(-1), "--first-node-id: -1 is no node id"),
        (builder().property("listeners", "SSL://:9092"), "listener SSL wants SSL, which is not built yet"),
        (
            builder().property("listeners", "A://h:1"),
            "listener A has no entry in listener.security.protocol.map",
        ),
        (
            builder().property("listeners", "PLAINTEXT://h:1").property("advertised.listeners", "B://h:1"),
            "advertised.listeners names B, listeners does not",
        ),
        (
            builder()
                .property("listeners", "A://h:1,B://h:2")
                .property("listener.security.protocol.map", "A:PLAINTEXT,B:PLAINTEXT")
                .brokers(2),
            "two listeners want port 2",
        ),
        (
            builder().property("listener.name.plaintext.share.txn.dialect", "k93,off"),
            "share.txn.dialect: k93,off: off goes with no other form",
        ),
        (
            builder().property("listener.name.inner.share.txn.dialect", "k93"),
            "share.txn.dialect: listener.name.inner.share.txn.dialect is for no listener (their names are in \
             lower case here)",
        ),
        (builder().feature("share.version=4"), "--feature: share.version has the levels 0 to 3, not 4"),
        (kafka().feature("share.version=3"), "--feature: share.version has the levels 0 to 2, not 3"),
        (builder().feature("no.version=1"), "--feature: no feature is called no.version"),
        (builder().topic("a/b"), "--topic: \"a/b\" is no legal topic name"),
        (builder().topic("a:0"), "--topic: \"0\" is no number of partitions"),
        (builder().topic("a:1:x=1"), "--topic: no topic property is called x"),
        (builder().topic("a").topic("a:2"), "--topic: a is named twice"),
    ];
    for (builder, text) in cases {
        assert_eq!(build(builder), Err(text.to_owned()));
    }
}

#[test]
fn a_test_broker_allows_short_times() {
    let config = build(
        BrokerConfig::builder()
            .property("group.share.record.lock.duration.ms", "1")
            .property("group.share.heartbeat.interval.ms", "1")
            .property("group.share.session.timeout.ms", "2"),
    );
    let settings = config.unwrap().settings();
    assert_eq!(settings.group_share_record_lock_duration_ms, 1);
    assert_eq!(settings.group_share_assignment_interval_ms, 0);
    assert_eq!(kafka().broker().group_share_assignment_interval_ms, 1000);
}

#[test]
fn a_servers_properties_become_listeners_and_values() {
    let text = "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n\
                listeners=PLAINTEXT://:9192,INNER://[::1]:0,CONTROLLER://:9093\n\
                listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT\n\
                advertised.listeners=PLAINTEXT://kafka:19092\nnum.partitions=3\nlog.retention.hours=2\n";
    let builder = BrokerConfig::builder().properties_file(text).unwrap().brokers(2);
    let config = build(builder.property("num.partitions", "4")).unwrap();
    let listeners: Vec<_> = config
        .nodes
        .iter()
        .flat_map(|node| node.listeners.iter().map(move |listener| (node.id.get(), listener)))
        .map(|(id, listener)| format!("{id} {} {} {}", listener.name, listener.listen, listener.advertised))
        .collect();
    let expected = [
        "1 PLAINTEXT :9192 kafka:19092",
        "1 INNER [::1]:0 [::1]:0",
        "2 PLAINTEXT :9193 kafka:19093",
        "2 INNER [::1]:0 [::1]:0",
    ];
    assert_eq!(listeners, expected);
    assert_eq!(config.settings().num_partitions, 4);
    let configs = DynamicConfigs::new(config);
    assert_eq!(configs.topic("t").retention_ms, Some(7_200_000));
}

#[test]
fn unknown_properties_are_named() {
    let mut unknown = Vec::new();
    let builder = BrokerConfig::builder()
        .property("no.such", "1")
        .property("listener.name.plaintext.share.txn.dialect", "seed");
    let config = builder.build(&mut unknown).unwrap();
    assert_eq!(unknown, ["no.such"]);
    assert_eq!(config.txn_dialects("PLAINTEXT"), [TxnDialect::Seed]);
    assert_eq!(config.txn_dialects("OTHER"), [TxnDialect::K95, TxnDialect::Seed]);
}

#[test]
fn topics_wished_for() {
    let config = build(
        BrokerConfig::builder()
            .topic("a")
            .topic("b:3")
            .topic("c::cleanup.policy=compact,delete,retention.ms=5"),
    );
    let topics = config.unwrap().topics;
    assert_eq!(topics[0], NewTopic { name: "a".to_owned(), partitions: None, configs: Vec::new() });
    assert_eq!(topics[1].partitions, Some(3));
    let configs = [("cleanup.policy", "compact,delete"), ("retention.ms", "5")];
    assert_eq!(topics[2].configs, configs.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn the_strongest_layer_wins() {
    let start = BrokerConfig::builder().profile(Profile::Kafka44).property("log.retention.minutes", "7");
    let mut configs = DynamicConfigs::new(build(start).unwrap());
    let steps = [
        (None, 420_000, ConfigSource::StaticBroker),
        (
            Some((ConfigResource::Broker(None), "log.retention.ms", "6")),
            6,
            ConfigSource::DynamicDefaultBroker,
        ),
        (
            Some((ConfigResource::Broker(Some(NodeId::new(0))), "log.retention.ms", "5")),
            5,
            ConfigSource::DynamicBroker,
        ),
        (Some((topic("t"), "retention.ms", "4")), 4, ConfigSource::Topic),
    ];
    for (change, ms, source) in steps {
        if let Some((resource, name, value)) = change {
            alter(&mut configs, &resource, set(name, value)).unwrap();
        }
        assert_eq!(configs.topic("t").retention_ms, Some(ms));
        let described = configs.describe(NodeId::new(0), &topic("t"), Some(&["retention.ms"]));
        assert_eq!(described[0].value, Some(ms.to_string()));
        // As in Kafka, a property that only stands in is not named as the source.
        let named = if source == ConfigSource::StaticBroker { ConfigSource::Default } else { source };
        assert_eq!(described[0].source, named);
    }
    let described = configs.describe(NodeId::new(0), &topic("t"), Some(&["retention.ms"]));
    let synonyms: Vec<_> = described[0]
        .synonyms
        .iter()
        .map(|synonym| (synonym.name.as_str(), synonym.value.as_deref().unwrap(), synonym.source.wire_id()))
        .collect();
    let expected = [
        ("retention.ms", "4", 1),
        ("log.retention.ms", "5", 2),
        ("log.retention.ms", "6", 3),
        ("log.retention.minutes", "7", 4),
        ("log.retention.hours", "168", 5),
    ];
    assert_eq!(synonyms, expected);
    assert_eq!(configs.topic("other").retention_ms, Some(5));
    configs.replay_removal(&topic("t"));
    assert_eq!(configs.topic("t").retention_ms, Some(5));
}

#[test]
fn lists_are_appended_to_and_subtracted_from() {
    let mut configs = kafka();
    let operation = |operation: fn(String) -> AlterOperation, items: &str| {
        ("cleanup.policy".to_owned(), operation(items.to_owned()))
    };
    alter(&mut configs, &topic("t"), operation(AlterOperation::Append, "compact")).unwrap();
    assert!(configs.topic("t").compact && configs.topic("t").delete);
    alter(&mut configs, &topic("t"), operation(AlterOperation::Subtract, "delete")).unwrap();
    assert!(configs.topic("t").compact && !configs.topic("t").delete);
    alter(&mut configs, &topic("t"), ("cleanup.policy".to_owned(), AlterOperation::Delete)).unwrap();
    assert!(!configs.topic("t").compact && configs.topic("t").delete);
    let refused =
        alter(&mut configs, &topic("t"), ("retention.ms".to_owned(), AlterOperation::Append("1".to_owned())));
    let text = "Can't APPEND to key retention.ms because its type is not LIST.".to_owned();
    assert_eq!(refused, Err((ErrorCode::InvalidConfig, text)));
}

#[test]
fn changes_that_are_refused() {
    let mut configs = kafka();
    let cases = [
        (topic("t"), "no.such", "1", ErrorCode::InvalidConfig, "Unknown topic config name: no.such"),
        (group("g"), "no.such", "1", ErrorCode::InvalidConfig, "Unknown group config name: no.such"),
        (
            group("g"),
            "share.record.lock.duration.ms",
            "500",
            ErrorCode::InvalidConfig,
            "Invalid value 500 for configuration share.record.lock.duration.ms: Value must be at least 1000",
        ),
        (
            group("g"),
            "share.record.lock.duration.ms",
            "10000",
            ErrorCode::InvalidConfig,
            "share.record.lock.duration.ms must be in the range 15000 to 60000 inclusive.",
        ),
        (
            group("g"),
            "share.auto.offset.reset",
            "foo",
            ErrorCode::InvalidConfig,
            "Invalid value foo for configuration share.auto.offset.reset: Invalid value `foo` for configuration \
             share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format \
             'by_duration:<PnDTnHnMn.nS>'.",
        ),
        (
            group("g"),
            "errors.deadletterqueue.topic.name",
            "__x",
            ErrorCode::InvalidConfig,
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
        ),
        (
            ConfigResource::Broker(None),
            "num.partitions",
            "2",
            ErrorCode::InvalidRequest,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
    ];
    for (resource, name, value, code, text) in cases {
        assert_eq!(alter(&mut configs, &resource, set(name, value)), Err((code, text.to_owned())));
    }
}

#[test]
fn group_values_move_into_the_brokers_bounds() {
    let mut configs = kafka();
    alter(&mut configs, &group("g"), set("share.auto.offset.reset", "by_duration:PT1H")).unwrap();
    alter(&mut configs, &group("g"), set("share.record.lock.duration.ms", "15000")).unwrap();
    assert_eq!(configs.share_group("g").record_lock_duration_ms, 15_000);
    assert_eq!(configs.share_group("g").auto_offset_reset, AutoOffsetReset::ByDurationMs(3_600_000));
    assert_eq!(configs.share_group("other").record_lock_duration_ms, 30_000);
    // As after a restart with other bounds.
    let start = BrokerConfig::builder()
        .profile(Profile::Kafka44)
        .property("group.share.min.record.lock.duration.ms", "20000");
    let mut restarted = DynamicConfigs::new(build(start).unwrap());
    let values = vec![("share.record.lock.duration.ms".to_owned(), Some("15000".to_owned()))];
    restarted.replay(&ConfigChange { resource: group("g"), values });
    assert_eq!(restarted.share_group("g").record_lock_duration_ms, 20_000);
}

#[test]
fn passwords_are_never_described() {
    let start = BrokerConfig::builder().property("ssl.key.password", "secret");
    let configs = DynamicConfigs::new(build(start).unwrap());
    let node = NodeId::new(0);
    let described = configs.describe(node, &ConfigResource::Broker(Some(node)), None);
    assert!(300 < described.len());
    let password = described.iter().find(|config| config.name == "ssl.key.password").unwrap();
    assert_eq!((password.value.as_deref(), password.sensitive), (None, true));
    assert!(password.synonyms.iter().all(|synonym| synonym.value.is_none()));
    let of_all = configs.describe(node, &ConfigResource::Broker(None), None);
    assert_eq!(of_all.iter().map(|config| config.name.as_str()).collect::<Vec<_>>(), ["min.insync.replicas"]);
    let name: Arc<str> = "t".into();
    assert!(
        configs.describe(node, &ConfigResource::Topic(name), None).iter().all(|config| !config.read_only)
    );
}

#[test]
fn clients_cannot_fill_the_memory_with_properties() {
    let mut configs = kafka();
    let text = "There are too many groups with properties of their own.".to_owned();
    let full = Err((ErrorCode::PolicyViolation, text));
    for number in 0..10_000 {
        let name = format!("g{number}");
        alter(&mut configs, &group(&name), set("share.auto.offset.reset", "earliest")).unwrap();
    }
    assert_eq!(alter(&mut configs, &group("new"), set("share.auto.offset.reset", "earliest")), full);
    alter(&mut configs, &group("g7"), set("share.record.lock.duration.ms", "20000")).unwrap();
    alter(&mut configs, &group("g8"), ("share.auto.offset.reset".to_owned(), AlterOperation::Delete))
        .unwrap();
    alter(&mut configs, &group("new"), set("share.auto.offset.reset", "earliest")).unwrap();

    let all = ConfigResource::Broker(None);
    let more = || (0..1_000).map(|number| set(&format!("of.a.plugin.{number}"), "1")).collect::<Vec<_>>();
    let refused = configs.decide_alter(&all, &more()).map_err(|error| error.code());
    assert_eq!(refused, Err(ErrorCode::PolicyViolation), "with the one that is set from the start");
    assert!(configs.decide_alter(&all, &more()[1..]).is_ok());
}

#[test]
fn a_node_is_in_its_own_rack_or_in_that_of_all() {
    let build = |id: i32| {
        let builder = BrokerConfig::builder().brokers(2).property("broker.rack", "a");
        builder.property(format!("node.{id}.broker.rack"), " b").build(&mut Vec::new())
    };
    let config = build(1).unwrap();
    assert_eq!([0, 1].map(|id| config.rack(NodeId::new(id))), [Some("a"), Some("b")]);
    assert_eq!(build(2).unwrap_err().to_string(), "broker.rack: there is no node 2");
}
