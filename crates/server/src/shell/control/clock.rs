//! The verbs of the clock.

use sharemark_protocol::Timestamp;

use super::{Control, ControlError};
use crate::shell::desk::Desk;

/// The furthest that the clock is advanced at once: a year. Each deadline on the way runs.
const ADVANCE_MS_MAX: i64 = 366 * 86_400_000;

/// How many deadlines pass before the owner turns to others for a while: a year has millions of them.
const DEADLINES_PER_TURN: u32 = 256;

/// The broker's clock: that of locks, sessions, transactions and retention.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClockView {
    /// Whether it stands still.
    pub is_held: bool,
    /// What it shows, in milliseconds since 1970.
    pub now_ms: i64,
}

/// Returns the clock.
pub(in crate::shell) fn view(desk: &mut dyn Desk) -> Result<ClockView, ControlError> {
    let now = desk.clock().now().clock;
    Ok(ClockView { is_held: desk.clock().is_held(), now_ms: now.ms() })
}

/// Holds the clock.
pub(in crate::shell) fn hold(desk: &mut dyn Desk) -> Result<ClockView, ControlError> {
    desk.clock().hold();
    view(desk)
}

/// Lets the clock go on.
pub(in crate::shell) fn release(desk: &mut dyn Desk) -> Result<ClockView, ControlError> {
    desk.clock().release();
    view(desk)
}

impl Control {
    /// Moves the held clock by `ms`, and stops on the way at each deadline, so that they pass in order.
    ///
    /// # Errors
    ///
    /// - `Invalid` for less than nothing or more than a year.
    /// - `Conflict` if the clock is not held, or no more while it is on its way.
    /// - `Ended` if the server has ended.
    pub(in crate::shell) fn advance_clock(&self, ms: i64) -> Result<ClockView, ControlError> {
        let mut turn = self.call(move |desk| advance_for_a_turn(desk, ms))?;
        while let Some(left_ms) = turn.left_ms {
            turn = self.call(move |desk| advance_for_a_turn(desk, left_ms))?;
        }
        Ok(turn.clock)
    }

    /// As [`Self::advance_clock`], within a task.
    ///
    /// # Errors
    ///
    /// As there.
    pub(super) async fn advance_clock_from_task(&self, ms: i64) -> Result<ClockView, ControlError> {
        let mut turn = self.call_from_task(move |desk| advance_for_a_turn(desk, ms)).await?;
        while let Some(left_ms) = turn.left_ms {
            turn = self.call_from_task(move |desk| advance_for_a_turn(desk, left_ms)).await?;
        }
        Ok(turn.clock)
    }
}

/// Where an advance has come to.
#[derive(Clone, Copy, Debug)]
struct Turn {
    clock: ClockView,
    /// How far the clock is still to go; `None` if it has arrived.
    left_ms: Option<i64>,
}

/// Moves the held clock by `ms`, or as far as its turn lasts.
fn advance_for_a_turn(desk: &mut dyn Desk, ms: i64) -> Result<Turn, ControlError> {
    if !(0..=ADVANCE_MS_MAX).contains(&ms) {
        return Err(ControlError::Invalid(format!("ms must be 0 to {ADVANCE_MS_MAX}, not {ms}")));
    }
    if !desk.clock().is_held() {
        return Err(ControlError::Conflict("the clock runs; hold it first".to_owned()));
    }
    let end = desk.clock().now().clock.plus_ms(ms);
    for _ in 0..DEADLINES_PER_TURN {
        let now = desk.clock().now();
        if desk.tick(now).is_err() {
            return Err(ControlError::Ended);
        }
        if now.clock == end {
            return Ok(Turn { clock: view(desk)?, left_ms: None });
        }
        // A deadline that is still due is tried again a little later, as on a clock that runs.
        let next = desk.broker().poll_timeout().clock.unwrap_or(end);
        let soon: Timestamp = now.clock.plus_ms(1);
        desk.clock().advance_to(next.max(soon).min(end));
    }
    let clock = view(desk)?;
    Ok(Turn { clock, left_ms: Some(end.ms() - clock.now_ms) })
}
