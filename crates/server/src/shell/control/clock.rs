//! The verbs of the clock.

use sharemark_protocol::Timestamp;

use super::ControlError;
use crate::shell::desk::Desk;

/// The furthest that the clock is advanced at once: a year. Each deadline on the way runs.
const ADVANCE_MS_MAX: i64 = 366 * 86_400_000;

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

/// Moves the held clock by `ms`, and stops on the way at each deadline, so that they pass in order.
pub(in crate::shell) fn advance(desk: &mut dyn Desk, ms: i64) -> Result<ClockView, ControlError> {
    if !(0..=ADVANCE_MS_MAX).contains(&ms) {
        return Err(ControlError::Invalid(format!("ms must be 0 to {ADVANCE_MS_MAX}, not {ms}")));
    }
    if !desk.clock().is_held() {
        return Err(ControlError::Conflict("the clock runs; hold it first".to_owned()));
    }
    let end = desk.clock().now().clock.plus_ms(ms);
    loop {
        let now = desk.clock().now();
        if desk.tick(now).is_err() {
            return Err(ControlError::Ended);
        }
        if now.clock == end {
            return view(desk);
        }
        // A deadline that is still due is tried again a little later, as on a clock that runs.
        let next = desk.broker().poll_timeout().clock.unwrap_or(end);
        let soon: Timestamp = now.clock.plus_ms(1);
        desk.clock().advance_to(next.max(soon).min(end));
    }
}
