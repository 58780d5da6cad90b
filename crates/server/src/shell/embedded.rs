//! What a program that embeds a server may do to it: the verbs of the control endpoint.

use std::time::Duration;

use super::control::{self, ClockView, ControlError, render};
use super::server::Server;

impl Server {
    /// Returns all metrics in the text form that Prometheus reads.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn metrics(&self) -> Result<String, ControlError> {
        let nodes = self.control().call(|desk| Ok(desk.broker().metrics()))?;
        render(nodes, self.control().meters.clone()).map_err(|_| ControlError::Ended)
    }

    /// Returns the clock that locks, sessions, transactions and retention follow.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn clock(&self) -> Result<ClockView, ControlError> {
        self.control().call(control::view)
    }

    /// Holds that clock: no lock, session, membership, transaction or retention deadline passes until it is
    /// advanced or released. Waits of a request and of a connection run on.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn hold_clock(&self) -> Result<ClockView, ControlError> {
        self.control().call(control::hold)
    }

    /// Moves the held clock forward, by a year at most; every deadline on the way passes, in order, before this
    /// returns.
    ///
    /// # Errors
    ///
    /// - `Conflict` if the clock is not held.
    /// - `Invalid` for more than a year.
    /// - `Ended` if the server has ended.
    pub fn advance_clock(&self, by: Duration) -> Result<ClockView, ControlError> {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.control().call(move |desk| control::advance(desk, ms))
    }

    /// Lets the clock go on from where it stands.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn release_clock(&self) -> Result<ClockView, ControlError> {
        self.control().call(control::release)
    }
}
