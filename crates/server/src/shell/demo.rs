//! `sharemark demo`: an exactly-once run against a broker of its own, over TCP, that explains itself.
//!
//! Workers take orders from a share group, write a receipt for each, and acknowledge the orders in the transaction
//! that writes the receipts. Transactions abort, a producer is fenced, a worker dies. Then the topics are read back:
//! there must be one receipt for each order, whatever went wrong on the way.
//!
//! All workers take their steps in turn on one thread, so that each run is the same.

mod account;
mod client;
mod read_back;
mod states;
mod topics;
mod worker;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sharemark_protocol::{Timestamp, TopicId};

use self::account::Account;
use self::client::Client;
pub(super) use self::client::DemoError;
use self::read_back::{ReadRecord, read_back};
use self::states::{LEGEND, States};
use self::worker::{Worker, init_producer};
use super::clock::Clock;
use super::server::ServerBuilder;

/// The topic that work comes from.
const ORDERS: &str = "orders";

/// The topic that its outcome goes to.
const RECEIPTS: &str = "receipts";

/// The share group.
const GROUP: &str = "cashiers";

const ORDER_COUNT: usize = 1000;
const ORDERS_PER_BATCH: usize = 100;
const WORKER_COUNT: usize = 3;

/// Every third transaction aborts. Three begin in a round, and the round after it hands out first what the third
/// has given back; so no order comes near its delivery limit.
const ABORTS_EVERY: usize = 3;

/// The transaction whose producer is fenced, and the one whose worker dies; neither is due to abort.
const FENCED_TRANSACTION: usize = 25;
const DYING_TRANSACTION: usize = 47;

/// How long the first worker of a round waits for an order.
const TAKE_WAIT_MS: i32 = 500;

/// How long nothing may move on before the demo gives up.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// More transactions than this are a run that never ends.
const TRANSACTIONS_MAX: usize = 1000;

/// How many orders one mark of a picture stands for.
const ORDERS_PER_MARK: usize = 20;

/// Runs the demo on a server that is still to be started and tells `out` about it; returns what was wrong with the
/// outcome, if anything was.
pub(super) fn run(server: ServerBuilder, out: &mut dyn Write) -> Result<Option<String>, DemoError> {
    let started = Instant::now();
    let server = server.start()?;
    let listeners = server.addresses().first().map(|node| &node.listeners);
    let address = listeners.and_then(|listeners| listeners.first()).map(|(_, address)| *address);
    let address = address.ok_or(DemoError::Nonsense("the server listens nowhere"))?;
    let mut demo = Demo::begin(address, out)?;
    demo.work()?;
    let fault = demo.tell_outcome(started)?;
    server.stop()?;
    Ok(fault)
}

/// A run that goes on.
struct Demo<'a> {
    out: &'a mut dyn Write,
    address: SocketAddr,
    /// For all that is not a worker's.
    client: Client,
    topics: (TopicId, TopicId),
    /// The orders, as they were read back.
    orders: Vec<ReadRecord>,
    states: States,
    workers: Vec<Worker>,
    /// How many transactions have begun.
    transactions: usize,
    pictures: Vec<(String, String)>,
}

impl<'a> Demo<'a> {
    /// Creates the topics, writes the orders and starts the workers.
    fn begin(address: SocketAddr, out: &'a mut dyn Write) -> Result<Self, DemoError> {
        writeln!(out, "A broker of its own listens on {address}; all that follows goes over TCP.\n")?;
        writeln!(
            out,
            "{ORDER_COUNT} orders are in the topic `{ORDERS}`. {WORKER_COUNT} workers of the share group `{GROUP}` take \
             them,\nwrite a receipt for each to the topic `{RECEIPTS}`, and acknowledge the orders in the same \
             transaction\n(KIP-1289): either both happen or neither. Every third transaction aborts."
        )?;
        let mut client = Client::connect(address, "demo")?;
        let orders_id = topics::create_topic(&mut client, ORDERS)?;
        let topics = (orders_id, topics::create_topic(&mut client, RECEIPTS)?);
        topics::set_group_config(&mut client, GROUP, "share.auto.offset.reset", "earliest")?;
        for first in (0..ORDER_COUNT).step_by(ORDERS_PER_BATCH) {
            let batch = worker::batch_of_orders(first, ORDERS_PER_BATCH, now());
            topics::produce(&mut client, orders_id, None, batch)?;
        }
        let orders = read_back(&mut client, orders_id)?.records;
        let mut workers = Vec::new();
        for number in 1..=WORKER_COUNT {
            let (member, transactional_id) = (format!("worker-{number}"), format!("receipts-{number}"));
            workers.push(Worker::start(address, topics, member, transactional_id)?);
        }
        let states = States::new(&mut client, GROUP, orders_id)?;
        Ok(Self {
            out,
            address,
            client,
            topics,
            orders,
            states,
            workers,
            transactions: 0,
            pictures: Vec::new(),
        })
    }

    /// Lets the workers work until every order has its last state.
    fn work(&mut self) -> Result<(), DemoError> {
        self.draw("at the start")?;
        let mut last_progress = Instant::now();
        let mut round = 0;
        loop {
            self.states.follow(&mut self.client)?;
            if self.orders.iter().all(|order| self.states.is_final(order.offset)) {
                return self.draw("at the end");
            }
            let before = self.transactions;
            self.round(round)?;
            round += 1;
            if before < self.transactions {
                last_progress = Instant::now();
            }
            if TRANSACTIONS_MAX < self.transactions || STUCK_AFTER < last_progress.elapsed() {
                return self.draw("when nothing moved on any more"); // The account says what is unfinished.
            }
        }
    }

    /// Lets each worker go through one transaction; another one begins each round.
    fn round(&mut self, round: usize) -> Result<(), DemoError> {
        let turns: Vec<usize> = (0..WORKER_COUNT).map(|turn| (round + turn) % WORKER_COUNT).collect();
        for (turn, &index) in turns.iter().enumerate() {
            // When the first has nothing to do, nobody has: it waits until something is given back.
            self.workers[index].take(if turn == 0 { TAKE_WAIT_MS } else { 0 })?;
        }
        let mut open = Vec::new();
        for index in turns {
            if self.workers[index].held().is_empty() {
                continue;
            }
            self.transactions += 1;
            self.workers[index].work()?;
            match self.transactions {
                FENCED_TRANSACTION => self.fence(index)?,
                DYING_TRANSACTION => self.die(index)?,
                number => open.push((index, number % ABORTS_EVERY != 0)),
            }
        }
        for (index, commit) in open {
            self.workers[index].end(commit)?;
        }
        Ok(())
    }

    /// Begins another incarnation of a worker's transactional id, and lets the worker find out at its commit.
    fn fence(&mut self, index: usize) -> Result<(), DemoError> {
        let mut other = Client::connect(self.address, "demo-other-producer")?;
        let worker = &mut self.workers[index];
        init_producer(&mut other, worker.transactional_id())?;
        let count = worker.held().len();
        let error = worker.try_end(true)?;
        worker.restart_producer()?;
        let name = worker.name().to_owned();
        writeln!(
            self.out,
            "\nTransaction {}: another producer takes over the transactional id of {name}, which holds {count} \
             orders.\nThe commit of {name} is answered with {error}; its orders go back to the queue.",
            self.transactions
        )?;
        self.draw(&format!("{name} was fenced"))
    }

    /// Lets a worker die in its transaction, and a successor take its place.
    fn die(&mut self, index: usize) -> Result<(), DemoError> {
        let name = self.workers[index].name().to_owned();
        self.draw(&format!("{name} is about to die"))?;
        let dead = self.workers.remove(index);
        let (transactional_id, count) = (dead.transactional_id().to_owned(), dead.held().len());
        drop(dead); // Its connection closes, and nothing more is heard of it.
        let successor = format!("worker-{}", WORKER_COUNT + 1);
        let worker = Worker::start(self.address, self.topics, successor.clone(), transactional_id)?;
        self.workers.insert(index, worker);
        writeln!(
            self.out,
            "\nTransaction {}: {name} dies with {count} orders acknowledged and nothing committed.\n{successor} takes \
             its transactional id; with that, the orders go back to the queue.",
            self.transactions
        )?;
        self.draw(&format!("{successor} takes its place"))
    }

    fn draw(&mut self, moment: &str) -> Result<(), DemoError> {
        self.states.follow(&mut self.client)?;
        let offsets: Vec<i64> = self.orders.iter().map(|order| order.offset).collect();
        let held: BTreeSet<i64> =
            self.workers.iter().flat_map(|worker| worker.held().iter().map(|order| order.offset)).collect();
        let picture = self.states.picture(&offsets, &held, ORDERS_PER_MARK);
        self.pictures.push((moment.to_owned(), picture));
        Ok(())
    }

    /// Reads the topics back and tells what came of the orders; returns what is wrong, if anything is.
    fn tell_outcome(&mut self, started: Instant) -> Result<Option<String>, DemoError> {
        let (orders, receipts) = self.topics;
        let orders = read_back(&mut self.client, orders)?.records;
        let receipts = read_back(&mut self.client, receipts)?;
        let account = Account::new(&orders, &receipts, |offset| self.states.of(offset));
        let fault = account.fault();
        writeln!(self.out, "\nThe orders, {ORDERS_PER_MARK} to a mark, as `__share_group_state` tells:\n")?;
        for (moment, picture) in &self.pictures {
            writeln!(self.out, "  {picture}  {moment}")?;
        }
        writeln!(self.out)?;
        for line in LEGEND.lines() {
            writeln!(self.out, "  {line}")?;
        }
        writeln!(self.out, "\nWhat the topics say, read back:\n\n{account}\n")?;
        let seconds = started.elapsed().as_secs_f64();
        match &fault {
            None => writeln!(self.out, "Each order has exactly one receipt. ({seconds:.1} s)")?,
            Some(fault) => writeln!(self.out, "THIS IS WRONG: {fault}. ({seconds:.1} s)")?,
        }
        self.out.flush()?;
        Ok(fault)
    }
}

/// Returns what a worker makes of an order.
fn receipt_for(order: &[u8]) -> Vec<u8> {
    [b"paid: ", order].concat()
}

fn now() -> Timestamp {
    Clock::new().now().clock
}

#[cfg(test)]
mod tests;
