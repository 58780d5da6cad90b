//! What must become of each record, told as plainly as possible: one entry for each offset, no ranges, no index.

/// The delivery limit that the runs configure.
pub(crate) const DELIVERY_LIMIT: i16 = 5;

/// What a record is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    Available,
    Acquired { member: usize },
    Pending { producer: usize, acknowledge_type: &'static str },
    Done,
}

/// A share partition whose records come one in a batch.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// Each record's state, and how often it was delivered.
    pub(crate) records: Vec<(State, i16)>,
    /// The offset after the highest one that was ever acquired.
    pub(crate) next: usize,
}

impl Model {
    /// The lowest offset that is not done with.
    pub(crate) fn start(&self) -> usize {
        let open = self.records.iter().position(|(state, _)| *state != State::Done);
        open.unwrap_or(self.records.len()).min(self.next)
    }

    /// How many records are not done with.
    pub(crate) fn lag(&self) -> usize {
        self.records.iter().filter(|(state, _)| *state != State::Done).count()
    }

    /// Notes a delivery, which only an available record may have.
    pub(crate) fn deliver(&mut self, offset: usize, member: usize, delivery_count: i16) {
        let (state, count) = &mut self.records[offset];
        assert_eq!(
            *state,
            State::Available,
            "offset {offset} is delivered while it is available, not otherwise"
        );
        assert_eq!(delivery_count, *count + 1, "offset {offset} is counted once for each delivery");
        (*state, *count) = (State::Acquired { member }, delivery_count);
        self.next = self.next.max(offset + 1);
    }

    /// Gives a record back, or gives it up at the limit.
    fn give_back((state, count): &mut (State, i16)) {
        *state = if DELIVERY_LIMIT <= *count { State::Done } else { State::Available };
    }

    /// Judges and carries out an ordinary acknowledgement; returns the expected error.
    pub(crate) fn acknowledge(
        &mut self,
        member: usize,
        first: usize,
        last: usize,
        kind: &str,
    ) -> &'static str {
        let held = |(state, _): &(State, i16)| *state == State::Acquired { member };
        if let Some(error) = self.refusal(first, last, held) {
            return error;
        }
        let from = first.max(self.start());
        for record in self.records.iter_mut().take(last + 1).skip(from) {
            match kind {
                "release" => Self::give_back(record),
                _ => record.0 = State::Done,
            }
        }
        "NONE"
    }

    /// Judges and carries out a stage; returns the expected error. The early text's names no member.
    pub(crate) fn stage(
        &mut self,
        producer: usize,
        member: Option<usize>,
        (first, last): (usize, usize),
        acknowledge_type: &'static str,
    ) -> &'static str {
        let staged = State::Pending { producer, acknowledge_type };
        let fits = |(state, _): &(State, i16)| match *state {
            State::Acquired { member: holder } => member.is_none_or(|member| member == holder),
            State::Pending { .. } => *state == staged,
            State::Available | State::Done => false,
        };
        if let Some(error) = self.refusal(first, last, fits) {
            return error;
        }
        if first < self.start() {
            return "INVALID_RECORD_STATE"; // It may be done by another transaction.
        }
        for (state, _) in self.records.iter_mut().take(last + 1).skip(first) {
            *state = staged;
        }
        "NONE"
    }

    fn refusal(
        &self,
        first: usize,
        last: usize,
        fits: impl Fn(&(State, i16)) -> bool,
    ) -> Option<&'static str> {
        let start = self.start();
        if last < start {
            return None;
        }
        if self.next == start {
            return Some("INVALID_RECORD_STATE"); // Nothing is in flight at all.
        }
        if self.next <= last {
            return Some("INVALID_REQUEST");
        }
        let all = self.records[first.max(start)..=last].iter().all(fits);
        (!all).then_some("INVALID_RECORD_STATE")
    }

    /// Ends the transaction of a producer.
    pub(crate) fn end(&mut self, producer: usize, committed: bool) {
        for record in &mut self.records {
            match record.0 {
                State::Pending { producer: owner, .. } if owner == producer => {
                    if committed {
                        record.0 = State::Done;
                    } else {
                        Self::give_back(record);
                    }
                }
                State::Pending { .. } | State::Available | State::Acquired { .. } | State::Done => {}
            }
        }
    }

    /// Lets go of what is acquired: by one member, or by all whose locks have run out.
    pub(crate) fn release(&mut self, member: Option<usize>) {
        for record in &mut self.records {
            match record.0 {
                State::Acquired { member: holder } if member.is_none_or(|member| member == holder) => {
                    Self::give_back(record);
                }
                State::Acquired { .. } | State::Pending { .. } | State::Available | State::Done => {}
            }
        }
    }
}
