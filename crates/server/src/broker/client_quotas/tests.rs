//! Quotas that are not whole numbers, not positive or too large; entities that make no sense.

use super::*;

#[test]
fn values_are_checked_by_their_type() {
    type Parts = &'static [(&'static str, Option<&'static str>)];
    let quotas = ClientQuotas::default();
    let user: Parts = &[("user", Some("u"))];
    let address: Parts = &[("ip", Some("1.2.3.4"))];
    let cases: &[(Parts, &str, f64, Option<&str>)] = &[
        (user, "producer_byte_rate", 1000.0, None),
        (user, "producer_byte_rate", 1.000_000_1, None),
        (user, "producer_byte_rate", 1000.5, Some("producer_byte_rate cannot be a fractional value.")),
        (user, "consumer_byte_rate", 0.0, Some("Quota consumer_byte_rate must be greater than 0")),
        (user, "consumer_byte_rate", f64::NAN, Some("Quota consumer_byte_rate must be greater than 0")),
        (
            user,
            "consumer_byte_rate",
            1e30,
            Some("Proposed value for consumer_byte_rate is too large for a LONG."),
        ),
        (user, "request_percentage", 12.5, None),
        (user, "connection_creation_rate", 1.0, Some("Invalid configuration key connection_creation_rate")),
        (address, "connection_creation_rate", 1.0, None),
        (address, "producer_byte_rate", 1.0, Some("Invalid configuration key producer_byte_rate")),
    ];
    for (entity, key, value, wrong) in cases {
        let outcome = quotas.decide(entity, &[(key, Some(*value))]);
        let text = outcome.err().map(|(_, text)| text);
        assert_eq!(text.as_deref(), *wrong, "{key} {value}");
    }
}

#[test]
fn a_quota_taken_away_leaves_no_entity_behind() {
    let mut quotas = ClientQuotas::default();
    let entity: &[_] = &[("user", None), ("client-id", Some("c"))];
    let change = quotas.decide(entity, &[("request_percentage", Some(7.5))]).unwrap();
    quotas.replay(change);
    let any = BTreeMap::from([(EntityType::User, Match::Any)]);
    assert_eq!(quotas.matching(&any, false).count(), 1);
    assert_eq!(quotas.matching(&any, true).count(), 0, "it has a client id too");
    let named = BTreeMap::from([(EntityType::User, Match::Exact("c".into()))]);
    assert_eq!(quotas.matching(&named, false).count(), 0);
    let change = quotas.decide(entity, &[("request_percentage", None), ("unknown", None)]).unwrap();
    quotas.replay(change);
    assert_eq!(quotas.matching(&BTreeMap::new(), false).count(), 0);
}
