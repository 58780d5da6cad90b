//! Random runs of members and transactional producers over one share partition, compared with the model after each step.

use proptest::prelude::*;
use sharemark_testkit::transcript::Session;

use super::model::{DELIVERY_LIMIT, Model, State};
use super::{run, with_session};

const MEMBERS: [&str; 3] = ["A", "B", "C"];
const PRODUCERS: [&str; 2] = ["x", "y"];
const STAGED_TYPES: [&str; 3] = ["accept", "reject", "gap"];
const PLAIN_TYPES: [&str; 3] = ["accept", "release", "reject"];
/// Longer than a lock lasts.
const ADVANCE_MS: u64 = 20_100;
/// So long that no lock runs out between two looks at the clock.
const LOCK_MS: u64 = 20_000;

#[derive(Clone, Debug)]
enum Step {
    Produce {
        count: usize,
    },
    Fetch {
        member: usize,
        max_records: usize,
    },
    Acknowledge {
        member: usize,
        first: usize,
        count: usize,
        kind: usize,
    },
    Stage {
        producer: usize,
        member: usize,
        first: usize,
        count: usize,
        kind: usize,
    },
    StageEarly {
        producer: usize,
        first: usize,
        count: usize,
        accepts: bool,
    },
    End {
        producer: usize,
        committed: bool,
    },
    /// A new incarnation takes over the transactional id.
    Fence {
        producer: usize,
    },
    CloseSession {
        member: usize,
    },
    Disconnect {
        member: usize,
    },
    /// All locks run out.
    Lapse,
}

fn step() -> impl Strategy<Value = Step> {
    let (member, producer, kind) = (0..MEMBERS.len(), 0..PRODUCERS.len(), 0..3_usize);
    // Where a range begins, counted from a little below the start offset.
    let (first, count) = (0..12_usize, 1..5_usize);
    prop_oneof![
        2 => (1..4_usize).prop_map(|count| Step::Produce { count }),
        4 => (member.clone(), 1..6_usize)
            .prop_map(|(member, max_records)| Step::Fetch { member, max_records }),
        3 => (member.clone(), first.clone(), count.clone(), kind.clone())
            .prop_map(|(member, first, count, kind)| Step::Acknowledge { member, first, count, kind }),
        6 => (producer.clone(), member.clone(), first, count, kind)
            .prop_map(|(producer, member, first, count, kind)| Step::Stage {
                producer, member, first, count, kind
            }),
        2 => (producer.clone(), 0..12_usize, 1..5_usize, any::<bool>()).prop_map(
            |(producer, first, count, accepts)| Step::StageEarly { producer, first, count, accepts }
        ),
        3 => (producer.clone(), any::<bool>())
            .prop_map(|(producer, committed)| Step::End { producer, committed }),
        1 => producer.prop_map(|producer| Step::Fence { producer }),
        1 => member.clone().prop_map(|member| Step::CloseSession { member }),
        1 => member.prop_map(|member| Step::Disconnect { member }),
        1 => Just(Step::Lapse),
    ]
}

/// A run under way: the broker, and what the model says of it.
struct Run<'a, 'b> {
    session: &'a mut Session<'b>,
    model: Model,
    /// Whether each member has a share session.
    sessions: [bool; 3],
    /// Each output record's offset of the input, its producer, and whether its transaction was committed.
    outputs: Vec<(usize, usize, Option<bool>)>,
    /// Whether the leader has the lock table, which is dropped with the group's last connection.
    is_loaded: bool,
}

impl Run<'_, '_> {
    fn start<'a, 'b>(session: &'a mut Session<'b>) -> Run<'a, 'b> {
        let setup = format!(
            "create-topic t
             create-topic out
             group-config g share.auto.offset.reset=earliest share.delivery.count.limit={DELIVERY_LIMIT} \
             share.record.lock.duration.ms={LOCK_MS}
             join member=A topics=t
             join member=B topics=t
             join member=C topics=t
             init-producer x txn=x timeout=900000
             init-producer y txn=y timeout=900000"
        );
        run(session, &setup);
        Run { session, model: Model::default(), sessions: [false; 3], outputs: Vec::new(), is_loaded: false }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Produce { count } => {
                run(self.session, &format!("produce t-0 batches={count}"));
                self.model.records.extend(vec![(State::Available, 0); count]);
            }
            Step::Fetch { member, max_records } => drop(self.fetch(member, max_records)),
            Step::Acknowledge { member, first, count, kind } => {
                self.acknowledge(member, first, count, PLAIN_TYPES[kind]);
            }
            Step::Stage { producer, member, first, count, kind } => {
                self.stage(producer, Some(member), (first, count), STAGED_TYPES[kind]);
            }
            Step::StageEarly { producer, first, count, accepts } => {
                self.stage(producer, None, (first, count), if accepts { "accept" } else { "reject" });
            }
            Step::End { producer, committed } => self.end(producer, committed),
            Step::Fence { producer } => {
                let name = PRODUCERS[producer];
                let asked = format!("init-producer {name} txn={name} timeout=900000");
                if !run(self.session, &asked).starts_with("NONE") {
                    assert!(run(self.session, &asked).starts_with("NONE"), "the second request is answered");
                }
                self.end_model(producer, false);
            }
            Step::CloseSession { member } => self.close_session(member),
            Step::Disconnect { member } => self.disconnect(member),
            Step::Lapse => {
                self.session.advance(ADVANCE_MS);
                for member in MEMBERS {
                    run(self.session, &format!("heartbeat member={member}"));
                }
                self.model.release(None);
            }
        }
        self.check();
    }

    /// Fetches, and has the model note what came; returns how many records did.
    fn fetch(&mut self, member: usize, max_records: usize) -> usize {
        let epoch = if self.sessions[member] { "" } else { " epoch=0" };
        let name = MEMBERS[member];
        let fetch = format!("share-fetch member={name}{epoch} mode=1 max-records={max_records} wait=0");
        let output = run(self.session, &fetch);
        assert!(!output.contains("INVALID"), "{fetch}: {output}");
        self.sessions[member] = true;
        self.is_loaded = true;
        let acquired = output.split(" acquired ").nth(1).unwrap_or_default();
        let acquired = acquired.split(" records ").next().unwrap_or_default();
        let mut count = 0;
        for range in acquired.split_whitespace() {
            let (offsets, delivery_count) = range.split_once('x').unwrap();
            let (first, last) = offsets.split_once('-').unwrap();
            for offset in first.parse().unwrap()..=last.parse().unwrap() {
                self.model.deliver(offset, member, delivery_count.parse().unwrap());
                count += 1;
            }
        }
        count
    }

    /// Offsets around the start: `first` is counted from two below it, and all of them exist.
    fn range(&self, first: usize, count: usize) -> Option<(usize, usize)> {
        let first = (self.model.start() + first).saturating_sub(2);
        let last = (first + count).min(self.model.records.len()).checked_sub(1)?;
        (first <= last).then_some((first, last))
    }

    fn acknowledge(&mut self, member: usize, first: usize, count: usize, kind: &str) {
        let Some((first, last)) = self.range(first, count) else { return };
        if !self.sessions[member] {
            return; // Refused for want of a session, which is another matter.
        }
        let command = format!("share-acknowledge member={} t-0 {kind} {first}-{last}", MEMBERS[member]);
        let output = run(self.session, &command);
        let expected = self.model.acknowledge(member, first, last, kind);
        assert_eq!(output, format!("t-0 {expected}\n"), "{command}");
    }

    /// Stages by key 95, or without a member by the early text's two requests.
    fn stage(
        &mut self,
        producer: usize,
        member: Option<usize>,
        (first, count): (usize, usize),
        kind: &'static str,
    ) {
        let Some((first, last)) = self.range(first, count) else { return };
        let name = PRODUCERS[producer];
        let acknowledgements = format!("t-0 {kind} {first}-{last}");
        let command = match member {
            Some(member) => {
                format!("txn-share-acknowledge producer={name} member={} {acknowledgements}", MEMBERS[member])
            }
            None => {
                assert_eq!(run(self.session, &format!("add-share-acks producer={name} t-0")), "NONE\n");
                format!("seed-txn-share-acknowledge txn={name} {acknowledgements}")
            }
        };
        let output = run(self.session, &command);
        let before = self.pending_of(producer);
        let expected = if self.is_loaded {
            self.model.stage(producer, member, (first, last), kind)
        } else {
            "UNKNOWN_TOPIC_OR_PARTITION"
        };
        assert_eq!(output, format!("t-0 {expected}\n"), "{command}");
        // What is staged for the first time has an output in the same transaction.
        for offset in self.pending_of(producer).into_iter().filter(|offset| !before.contains(offset)) {
            let name = PRODUCERS[producer];
            let produced = run(self.session, &format!("produce out-0 values=v{offset} producer={name}"));
            assert!(produced.starts_with("out-0 NONE"), "{produced}");
            self.outputs.push((offset, producer, None));
        }
    }

    fn end(&mut self, producer: usize, committed: bool) {
        let outcome = if committed { "commit" } else { "abort" };
        let output = run(self.session, &format!("end-txn {} {outcome}", PRODUCERS[producer]));
        // Without a transaction a commit is refused.
        assert!(output.starts_with("NONE") || output.starts_with("INVALID_TXN_STATE"), "{output}");
        let has_pending = !self.pending_of(producer).is_empty();
        assert!(output.starts_with("NONE") || !has_pending, "what is staged has an open transaction");
        self.end_model(producer, committed);
    }

    fn end_model(&mut self, producer: usize, committed: bool) {
        self.model.end(producer, committed);
        for (_, owner, outcome) in &mut self.outputs {
            if *owner == producer && outcome.is_none() {
                *outcome = Some(committed);
            }
        }
    }

    fn pending_of(&self, producer: usize) -> Vec<usize> {
        let is_its =
            |state: &State| matches!(state, State::Pending { producer: owner, .. } if *owner == producer);
        let records = self.model.records.iter().enumerate();
        records.filter(|(_, (state, _))| is_its(state)).map(|(offset, _)| offset).collect()
    }

    /// Compares what a reader of committed data sees with the acknowledgements that were committed: one output each.
    fn check_outputs(&mut self) {
        let read = run(self.session, "fetch out-0 isolation=committed max-bytes=10000000");
        let mut open: Vec<(String, usize)> = Vec::new();
        let mut committed = Vec::new();
        for line in read.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let producer = words[1].split('/').next().unwrap().to_owned();
            let last = *words.last().unwrap();
            match last.strip_prefix('v') {
                Some(offset) => open.push((producer, offset.parse().unwrap())),
                None => {
                    let (ended, rest): (Vec<_>, Vec<_>) =
                        open.drain(..).partition(|(owner, _)| *owner == producer);
                    open = rest;
                    if last == "COMMIT" {
                        committed.extend(ended.into_iter().map(|(_, offset)| offset));
                    }
                }
            }
        }
        committed.sort_unstable();
        let mut expected: Vec<usize> = self
            .outputs
            .iter()
            .filter(|(.., outcome)| *outcome == Some(true))
            .map(|(offset, ..)| *offset)
            .collect();
        expected.sort_unstable();
        assert_eq!(committed, expected, "{read}");
        assert!(
            committed.windows(2).all(|pair| pair[0] < pair[1]),
            "one output for each input: {committed:?}"
        );
    }

    fn close_session(&mut self, member: usize) {
        if self.sessions[member] {
            run(self.session, &format!("share-fetch member={} epoch=-1", MEMBERS[member]));
            self.sessions[member] = false;
            self.model.release(Some(member));
        }
    }

    fn disconnect(&mut self, member: usize) {
        if !self.sessions[member] {
            return;
        }
        run(self.session, &format!("close {}", MEMBERS[member]));
        self.sessions[member] = false;
        self.model.release(Some(member));
        if self.sessions == [false; 3] {
            self.is_loaded = false;
        }
    }

    fn check(&mut self) {
        let told = run(self.session, "describe-share-offsets");
        let lag: i64 = told.trim_end().rsplit_once("lag=").unwrap().1.parse().unwrap();
        // Nothing is known before the first write.
        assert!(lag == -1 || usize::try_from(lag).ok() == Some(self.model.lag()), "{told}{:?}", self.model);
    }

    /// Ends what is open, and delivers all that is left: every record comes to its end.
    fn drain(&mut self) {
        self.end(0, true);
        self.end(1, false);
        self.step(&Step::Lapse);
        for _ in 0..=self.model.records.len() * 2 {
            if self.fetch(0, 500) == 0 {
                break;
            }
            let held: Vec<usize> = (0..self.model.records.len())
                .filter(|offset| self.model.records[*offset].0 == State::Acquired { member: 0 })
                .collect();
            for offset in held {
                let output = run(self.session, &format!("share-acknowledge member=A t-0 accept {offset}"));
                assert_eq!(output, "t-0 NONE\n");
                assert_eq!(self.model.acknowledge(0, offset, offset, "accept"), "NONE");
            }
        }
        self.check_outputs();
        assert_eq!(self.model.lag(), 0, "every record comes to an end: {:?}", self.model);
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rows S-U2, S-U4, S-U5, D-2, D-6, D-22, D-25 to D-28; invariants 3 to 6, 8 and 9 of the specification; cases B112
    /// to B116.
    #[test]
    fn every_record_goes_the_way_of_the_model(steps in prop::collection::vec(step(), 1..120)) {
        with_session(&[], |session| {
            let mut run = Run::start(session);
            for step in &steps {
                run.step(step);
            }
            run.drain();
        });
    }
}
