use super::*;

fn facts(topic: &str, partition: i32) -> Facts {
    Facts {
        from: Some(NodeId::new(0)),
        to: Some(NodeId::new(1)),
        places: vec![("other".to_owned(), 7), (topic.to_owned(), partition)],
        groups: vec!["g".to_owned()],
        ..Facts::default()
    }
}

#[test]
fn every_selector_that_is_set_has_to_match() {
    let any = Fault::new(FaultPoint::ShareStateWrite, FaultAction::Drop);
    let node = |id| Some(NodeId::new(id));
    for (fault, matches) in [
        (any.clone(), true),
        (any.clone().topic("t"), true),
        (any.clone().topic("u"), false),
        (Fault { partition: Some(3), ..any.clone() }.topic("t"), true),
        (Fault { partition: Some(7), ..any.clone() }.topic("t"), false),
        (Fault { partition: Some(7), ..any.clone() }, true),
        (any.clone().group("g"), true),
        (any.clone().group("h"), false),
        (any.clone().transactional_id("x"), false),
        (Fault { from: node(0), to: node(1), ..any.clone() }, true),
        (Fault { from: node(1), ..any.clone() }, false),
        (Fault { node: node(1), ..any.clone() }, true),
        (Fault { node: node(2), ..any.clone() }, false),
        (any.clone().apis([ApiKey::Produce]), false),
    ] {
        assert_eq!(fault.matches(&facts("t", 3)), matches, "{fault:?}");
    }
}

#[test]
fn a_fault_meets_as_often_as_it_is_told() {
    let mut faults = Faults::default();
    let twice = Fault { count: Some(2), ..Fault::new(FaultPoint::TxnMarkers, FaultAction::Drop) };
    let first = faults.install(twice).unwrap();
    let second = faults.install(Fault::new(FaultPoint::TxnMarkers, FaultAction::Repeat).for_ever()).unwrap();
    let mut met = || faults.meet(FaultPoint::TxnMarkers, &facts("t", 0)).map(|(id, _)| id);
    assert_eq!([met(), met(), met(), met()], [Some(first), Some(first), Some(second), Some(second)]);
    assert!(!faults.watches(FaultPoint::TxnVerify));
    assert_eq!(faults.delete(first), Ok(()));
    assert_eq!(faults.delete(first), Err(FaultProblem::Unknown));
    assert_eq!(faults.views().len(), 1);
}

#[test]
fn what_cannot_be_done_is_refused() {
    let mut faults = Faults::default();
    for (at, action, problem) in [
        (FaultPoint::LogAppend, FaultAction::Hold, FaultProblem::NotThere),
        (FaultPoint::Response, FaultAction::Repeat, FaultProblem::NotThere),
    ] {
        assert_eq!(faults.install(Fault::new(at, action)), Err(problem));
    }
}
