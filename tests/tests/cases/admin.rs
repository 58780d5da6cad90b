//! What an administrator changes for the whole cluster: features, ACLs; and how configs are described.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::messages as m;
use sharemark_testkit::client::Request;

use m::create_acls_request::{AclCreation, CreateAclsRequest};
use m::delete_acls_request::{DeleteAclsFilter, DeleteAclsRequest};
use m::describe_acls_request::DescribeAclsRequest;
use m::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};

use crate::brokers::{Broker, on_both, on_both_alone};

/// With an authorizer ACLs are kept; Kafka finds its own by this name.
const AUTHORIZER: &[&str] = &[
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
];
const TOPIC: i8 = 2;
const LITERAL: i8 = 3;
const ANY: i8 = 1;

/// B094: the level of transactions changes while the broker runs, and what producers may do with it.
#[test]
fn b094_the_level_of_transactions_changes_at_run_time() {
    on_both_alone(&[], |broker| {
        broker.topic("t", 1);
        let level = |level: i8, how: &str| {
            let told = broker.run(&[&format!("update-features {how} transaction.version={level}")]);
            assert_eq!(told, "NONE\ntransaction.version NONE \"NONE\"\n");
            broker.settle(|| broker.run(&["features transaction.version"]).contains(&level.to_string()));
        };
        broker.with_session(|run| {
            assert_eq!(run("init-producer p1 txn=x"), "NONE producer=id1/0\n");
            level(1, "safe");
            // At level 1 the epoch stays, and a partition is announced before it is written to.
            assert_eq!(run("add-partitions p1 t-0"), "t-0 NONE\n");
            assert_eq!(run("produce t-0 producer=p1 version=11"), "t-0 NONE base_offset=0\n");
            assert_eq!(run("end-txn p1 commit version=4"), "NONE\n");
            assert_eq!(run("add-partitions p1 t-0"), "t-0 NONE\n");
            assert_eq!(run("produce t-0 producer=p1 version=11"), "t-0 NONE base_offset=2\n");
            level(2, "upgrade");
            assert_eq!(run("end-txn p1 commit version=4"), "NONE\n");
            // At level 2 each end raises the epoch.
            assert_eq!(run("produce t-0 producer=p1"), "t-0 NONE base_offset=4\n");
            assert_eq!(run("end-txn p1 commit"), "NONE producer=id1/1\n");
            level(0, "safe");
            assert_eq!(run("add-partitions p1 t-0"), "t-0 NONE\n");
            assert_eq!(run("produce t-0 producer=p1 version=11"), "t-0 NONE base_offset=6\n");
            assert_eq!(run("end-txn p1 abort version=4"), "NONE\n");
            assert_eq!(run("list-offsets t-0 isolation=committed"), "t-0 NONE offset=8 time=-1\n");
        });
    });
}

/// Without share groups a member is told so, and with them again it begins anew.
#[test]
fn share_groups_are_turned_off_and_on() {
    on_both_alone(&[], |broker| {
        broker.topic("t", 1);
        let level = |level: i8, how: &str| {
            broker.run(&[&format!("update-features {how} share.version={level}")]);
            broker.settle(|| broker.run(&["features share.version"]).contains(&level.to_string()));
        };
        broker.with_session(|run| {
            run("group-config g share.auto.offset.reset=earliest");
            run("produce t-0 count=3");
            assert_eq!(run("join member=A topics=t"), "NONE assigned=t-0\n");
            assert_eq!(run("share-fetch member=A"), "t-0 NONE acquired 0-2x1 records 0-2\n");
            level(0, "safe");
            assert!(run("heartbeat member=A").starts_with("UNSUPPORTED_VERSION"));
            assert!(run("share-fetch member=A wait=100").starts_with("UNSUPPORTED_VERSION"));
            level(2, "upgrade");
            assert_eq!(run("join member=B topics=t").lines().next().map(|line| &line[..4]), Some("NONE"));
        });
    });
}

/// Returns the node, 0 or 1, that answers for a partition.
pub(crate) fn leader(run: &mut dyn FnMut(&str) -> String, partition: &str) -> u8 {
    let leads = |answer: String| answer.contains(" NONE ");
    let found = (0..2).find(|node| leads(run(&format!("via n{node} list-offsets {partition}"))));
    found.expect("a partition has a leader")
}

/// B138: records under two leader epochs, of a partition whose leader was moved on purpose.
#[test]
fn b138_an_epoch_ends_where_the_next_begins() {
    let broker = Broker::sharemark(&["--brokers", "2"]);
    broker.with_session(|run| {
        for command in ["create-topic t", "open n0 node=0", "open n1 node=1"] {
            run(command);
        }
        let old = leader(run, "t-0");
        let new = 1 - old;
        assert_eq!(run(&format!("via n{old} produce t-0 count=3")), "t-0 NONE base_offset=0\n");
        assert_eq!(run(&format!("reassign t-0={new}")), "NONE\nt-0 NONE\n");
        assert_eq!(run(&format!("via n{old} produce t-0")), "t-0 NOT_LEADER_OR_FOLLOWER\n");
        assert_eq!(run(&format!("via n{new} produce t-0 count=2")), "t-0 NONE base_offset=3\n");
        for (asked, told) in [
            ("epoch=0", "NONE epoch=0 end=3"),
            ("epoch=1", "NONE epoch=1 end=5"),
            ("epoch=2", "NONE epoch=-1 end=-1"),
            ("epoch=0 current=0", "FENCED_LEADER_EPOCH epoch=-1 end=-1"),
            ("epoch=0 current=1", "NONE epoch=0 end=3"),
            ("epoch=0 current=2", "UNKNOWN_LEADER_EPOCH epoch=-1 end=-1"),
        ] {
            let answer = run(&format!("via n{new} leader-epoch-end t-0 {asked}"));
            assert_eq!(answer, format!("t-0 {told}\n"), "{asked}");
        }
        let answer = run(&format!("via n{old} leader-epoch-end t-0 epoch=0"));
        assert_eq!(answer, "t-0 NOT_LEADER_OR_FOLLOWER epoch=-1 end=-1\n");
        // With a second replica the leader stays; the preferred one has to be elected.
        assert_eq!(run(&format!("reassign t-0={old},{new}")), "NONE\nt-0 NONE\n");
        assert_eq!(leader(run, "t-0"), new);
        assert_eq!(run("elect preferred t-0"), "NONE\nt-0 NONE\n");
        assert_eq!(leader(run, "t-0"), old);
        assert_eq!(run(&format!("via n{old} leader-epoch-end t-0 epoch=2")), "t-0 NONE epoch=2 end=5\n");
    });
}

/// A share partition whose leader is moved goes on from what is stored; a transaction outlives its coordinator's move.
#[test]
fn what_stands_on_a_moved_partition_goes_on() {
    let broker = Broker::sharemark(&["--brokers", "2"]);
    broker.with_session(|run| {
        for command in [
            "create-topic t",
            "open n0 node=0",
            "open n1 node=1",
            "group-config g share.auto.offset.reset=earliest",
        ] {
            run(command);
        }
        let old = leader(run, "t-0");
        let new = 1 - old;
        run(&format!("via n{old} produce t-0 count=4"));
        let groups = leader(run, "__consumer_offsets-0");
        assert_eq!(run(&format!("via n{groups} join member=A topics=t")), "NONE assigned=t-0\n");
        let fetched = run(&format!("share-fetch member=A on=n{old} epoch=0 t-0"));
        assert_eq!(fetched, "t-0 NONE acquired 0-3x1 records 0-3\n");
        let acknowledged = run(&format!("share-acknowledge member=A on=n{old} t-0 accept 0-1"));
        assert_eq!(acknowledged, "t-0 NONE\n");
        let coordinator = leader(run, "__transaction_state-0");
        assert_eq!(run(&format!("via n{coordinator} init-producer p1 txn=x")), "NONE producer=id1/0\n");
        assert_eq!(
            run(&format!("via n{coordinator} add-partitions p1 t-0")),
            "t-0 NONE\n",
            "a transaction is open when its coordinator moves"
        );
        for (partition, to) in [("t-0", new), ("__transaction_state-0", 1 - coordinator)] {
            assert_eq!(run(&format!("reassign {partition}={to}")), format!("NONE\n{partition} NONE\n"));
        }
        let fetched = run(&format!("share-fetch member=A on=n{new} epoch=0 t-0"));
        assert!(fetched.starts_with("t-0 NONE acquired 2-3x"), "{fetched}");
        assert_eq!(run(&format!("via n{coordinator} end-txn p1 commit at-once")), "NOT_COORDINATOR\n");
        let ended = run(&format!("via n{} end-txn p1 commit at-once", 1 - coordinator));
        assert_eq!(ended, "NONE producer=id1/1\n");
        let stable = run(&format!("via n{new} list-offsets t-0 isolation=committed"));
        assert_eq!(stable, "t-0 NONE offset=5 time=-1\n", "four records and the marker");
    });
}

fn acl(principal: &str) -> AclCreation {
    AclCreation {
        resource_type: TOPIC,
        resource_name: "t".into(),
        resource_pattern_type: LITERAL,
        principal: principal.into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
    }
}

fn all_acls() -> DescribeAclsRequest {
    DescribeAclsRequest {
        resource_type_filter: ANY,
        resource_name_filter: None,
        pattern_type_filter: ANY,
        principal_filter: None,
        host_filter: None,
        operation: ANY,
        permission_type: ANY,
    }
}

fn filter_of(request: &DescribeAclsRequest) -> DeleteAclsFilter {
    DeleteAclsFilter {
        resource_type_filter: request.resource_type_filter,
        resource_name_filter: request.resource_name_filter.clone(),
        pattern_type_filter: request.pattern_type_filter,
        principal_filter: request.principal_filter.clone(),
        host_filter: request.host_filter.clone(),
        operation: request.operation,
        permission_type: request.permission_type,
    }
}

/// Returns whether the broker closes the connection instead of answering.
fn closes<R: Request>(broker: &Broker, request: &R, version: i16) -> bool {
    let mut connection = broker.connect();
    connection.send(request, version).unwrap();
    connection.read_frame().unwrap().is_none()
}

fn create(broker: &Broker, creations: Vec<AclCreation>) -> Vec<(i16, Option<String>)> {
    let answer = broker.connect().call(&CreateAclsRequest { creations }, 3).unwrap();
    let told = answer.results.into_iter();
    told.map(|result| (result.error_code, result.error_message.map(|text| text.to_string()))).collect()
}

/// The principals that are kept, of the rules that a request means.
fn kept(broker: &Broker, request: &DescribeAclsRequest) -> BTreeSet<String> {
    let answer = broker.connect().call(request, 3).unwrap();
    assert_eq!(answer.error_code, 0, "{answer:?}");
    answer.resources.iter().flat_map(|one| &one.acls).map(|acl| acl.principal.to_string()).collect()
}

/// Without an authorizer there are no ACLs.
#[test]
fn acls_need_an_authorizer() {
    const SECURITY_DISABLED: i16 = 54;
    on_both(|broker| {
        let created = create(broker, vec![acl("User:u")]);
        assert_eq!(created, [(SECURITY_DISABLED, Some("No Authorizer is configured.".to_owned()))]);
        let described = broker.connect().call(&all_acls(), 3).unwrap();
        let text = described.error_message.as_deref();
        assert_eq!(described.error_code, SECURITY_DISABLED);
        assert_eq!(text, Some("No Authorizer is configured on the broker"));
        let request = DeleteAclsRequest { filters: vec![filter_of(&all_acls())] };
        let deleted = broker.connect().call(&request, 3).unwrap();
        assert_eq!(deleted.filter_results[0].error_code, SECURITY_DISABLED);
        assert_eq!(deleted.filter_results[0].error_message.as_deref(), Some("No Authorizer is configured."));
    });
}

/// B140: unknown values of filters match nothing; the one that stands for "unknown" is no request at all.
#[test]
fn b140_acls_are_kept_and_unknown_values_of_filters_match_nothing() {
    on_both_alone(AUTHORIZER, |broker| {
        let prefixed = AclCreation { resource_pattern_type: 4, ..acl("User:prefixed") };
        let created = create(broker, vec![acl("User:u"), prefixed, acl("User:u")]);
        let done = (0, Some(String::new()));
        assert_eq!(created, [done.clone(), done.clone(), done]);
        rules_that_lack_something_are_refused(broker);
        let of_filters = AclCreation { permission_type: ANY, ..acl("User:u") };
        let failed = create(broker, vec![acl("User:never"), of_filters, acl("nocolon")]);
        assert_eq!(failed, [(-1, None), (-1, None), (-1, None)], "such a rule fails the whole request");
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        broker.settle(|| kept(broker, &all_acls()).len() == 2);
        assert_eq!(kept(broker, &all_acls()), names(&["User:prefixed", "User:u"]));
        let matching = DescribeAclsRequest {
            resource_type_filter: TOPIC,
            resource_name_filter: Some("tango".into()),
            pattern_type_filter: 2,
            ..all_acls()
        };
        assert_eq!(kept(broker, &matching), names(&["User:prefixed"]));
        filters_with_odd_values_match_nothing(broker);
        assert_eq!(kept(broker, &all_acls()), names(&["User:prefixed", "User:u"]), "nothing was deleted");
        let by_name = DescribeAclsRequest { principal_filter: Some("User:u".into()), ..all_acls() };
        let deletion = DeleteAclsRequest { filters: vec![filter_of(&by_name), filter_of(&all_acls())] };
        let deleted = broker.connect().call(&deletion, 1).unwrap();
        let counts: Vec<usize> =
            deleted.filter_results.iter().map(|result| result.matching_acls.len()).collect();
        assert_eq!(counts, [1, 2], "each filter is told what it meant");
        broker.settle(|| kept(broker, &all_acls()).is_empty());
    });
}

fn rules_that_lack_something_are_refused(broker: &Broker) {
    let invalid = |text: &str| (42, Some(text.to_owned()));
    let refused = create(
        broker,
        vec![
            acl("nocolon"),
            AclCreation { resource_name: "".into(), ..acl("User:u") },
            AclCreation { host: "".into(), ..acl("User:u") },
            AclCreation { resource_type: 4, ..acl("User:u") },
            AclCreation { resource_type: 77, ..acl("User:u") },
            AclCreation { operation: 77, ..acl("User:u") },
            AclCreation { permission_type: 77, ..acl("User:u") },
        ],
    );
    assert_eq!(
        refused,
        [
            invalid(
                "Could not parse principal from `nocolon` (no colon is present separating the principal type \
                 from the principal name)"
            ),
            invalid("Invalid empty resource name"),
            invalid("Host pattern cannot be null or empty"),
            invalid("The only valid name for the CLUSTER resource is kafka-cluster"),
            invalid("Invalid resourceType UNKNOWN"),
            invalid("Invalid operation UNKNOWN"),
            invalid("Invalid permissionType UNKNOWN"),
        ]
    );
}

fn filters_with_odd_values_match_nothing(broker: &Broker) {
    let odd = [
        DescribeAclsRequest { resource_type_filter: 77, ..all_acls() },
        DescribeAclsRequest { pattern_type_filter: 77, ..all_acls() },
        DescribeAclsRequest { operation: 77, ..all_acls() },
        DescribeAclsRequest { permission_type: 77, ..all_acls() },
    ];
    for request in &odd {
        assert_eq!(kept(broker, request), BTreeSet::new(), "{request:?}");
        let deletion = DeleteAclsRequest { filters: vec![filter_of(request)] };
        let deleted = broker.connect().call(&deletion, 3).unwrap();
        assert_eq!(deleted.filter_results[0].error_code, 42, "{request:?}");
    }
    let malformed = [
        DescribeAclsRequest { resource_type_filter: 0, ..all_acls() },
        DescribeAclsRequest { pattern_type_filter: 0, ..all_acls() },
        DescribeAclsRequest { operation: 0, ..all_acls() },
        DescribeAclsRequest { permission_type: 0, ..all_acls() },
    ];
    for request in &malformed {
        assert!(closes(broker, request, 3), "{request:?}");
        let deletion = DeleteAclsRequest { filters: vec![filter_of(request)] };
        assert!(closes(broker, &deletion, 3), "{request:?}");
    }
}

/// The brokers' own addresses, and what one of the two was started with.
const OF_THE_PROCESS: &[&str] = &[
    "broker.id",
    "controller.listener.names",
    "controller.quorum.voters",
    "listeners",
    "log.cleaner.dedupe.buffer.size",
    "log.dirs",
    "node.id",
];

/// Every property of a topic, a group and a broker is told as Kafka tells it: name, value, type, layer, synonyms.
#[test]
fn configs_are_described_as_kafka_describes_them() {
    let seen: RefCell<Vec<BTreeMap<String, String>>> = RefCell::default();
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        broker.run(&[
            "alter-configs topic t retention.ms=5000 cleanup.policy=compact",
            "group-config g share.auto.offset.reset=earliest",
        ]);
        let node = if broker.is_kafka() { "1" } else { "0" };
        let mut told = BTreeMap::new();
        for (resource_type, name) in
            [(2, topic.name.clone()), (32, broker.name("g")), (4, node.to_owned()), (4, String::new())]
        {
            let is_one_broker = resource_type == 4 && !name.is_empty();
            let request = DescribeConfigsRequest {
                resources: vec![DescribeConfigsResource {
                    resource_type,
                    resource_name: name.as_str().into(),
                    configuration_keys: None,
                }],
                include_synonyms: true,
                include_documentation: false,
            };
            let answer = broker.connect().call(&request, 4).unwrap();
            assert_eq!(answer.results[0].error_code, 0);
            for config in &answer.results[0].configs {
                if is_one_broker && OF_THE_PROCESS.contains(&&*config.name) {
                    continue;
                }
                let kind = if is_one_broker { "one" } else { "all" };
                told.insert(format!("{resource_type} {kind} {}", &*config.name), format!("{config:?}"));
            }
        }
        seen.borrow_mut().push(told);
    });
    let seen = seen.into_inner();
    let ours = &seen[0];
    assert!(400 < ours.len(), "{} properties", ours.len());
    if let Some(kafkas) = seen.get(1..).and_then(<[_]>::last) {
        let names: BTreeSet<_> = ours.keys().chain(kafkas.keys()).collect();
        let different: Vec<_> = names
            .into_iter()
            .filter(|name| ours.get(*name) != kafkas.get(*name))
            .map(|name| format!("{name}\n  Kafka {:?}\n  ours  {:?}", kafkas.get(name), ours.get(name)))
            .collect();
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}
