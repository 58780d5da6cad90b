//! A Kafka Connect worker, distributed and with exactly-once sources, runs a file source and a file sink.
//!
//! Lines of one file go through a topic into another file. Half of them are written while no worker runs; the worker
//! that is started then goes on where the first one stopped, so that both files are equal in the end.
//! `INTEROP_BOOTSTRAP=host:port` tries it on another broker.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sharemark_testkit::process::{Sharemark, has_tools, workspace};

const SCRIPT: &str = "tests/interop/connect/run.sh";
const LINES: usize = 500;
const POLL: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(180);

/// Waits until something is so.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < WAIT_MAX, "{what}: not within {WAIT_MAX:?}");
        thread::sleep(POLL);
    }
}

/// A running worker. It is stopped in order, or killed when it is dropped.
struct Worker {
    script: Child,
    rest: SocketAddr,
}

impl Worker {
    fn start(bootstrap: &str) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let script = Command::new(workspace().join(SCRIPT))
            .arg(port.to_string())
            .env("BOOTSTRAP", bootstrap)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut worker = Self { script, rest: (Ipv4Addr::LOCALHOST, port).into() };
        until("the worker answers", || {
            assert!(worker.script.try_wait().unwrap().is_none(), "the worker has ended");
            worker.request("GET", "/connectors", "").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
        });
        worker
    }

    fn request(&self, method: &str, path: &str, body: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.rest)?;
        stream.set_read_timeout(Some(WAIT_MAX))?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {rest}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}",
            rest = self.rest
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Creates a connector, or tells the configuration that it has already.
    fn configure(&self, name: &str, config: &str) {
        let started = Instant::now();
        loop {
            // It is refused while the workers agree on who does what.
            let answer = self.request("PUT", &format!("/connectors/{name}/config"), config).unwrap();
            if answer.starts_with("HTTP/1.1 20") {
                return;
            }
            assert!(started.elapsed() < WAIT_MAX, "the connector {name} is not created: {answer}");
            thread::sleep(POLL);
        }
    }

    /// Returns whether the connector and its one task run.
    fn runs(&self, name: &str) -> bool {
        let answer = self.request("GET", &format!("/connectors/{name}/status"), "").unwrap();
        assert!(!answer.contains("FAILED"), "{answer}");
        answer.matches("RUNNING").count() == 2
    }

    fn stop(mut self) {
        let pid = self.script.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        until("the worker ends", || self.script.try_wait().unwrap().is_some());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let pid = self.script.id().to_string();
        if self.script.try_wait().unwrap().is_none() {
            // The script passes it on; errors mean that it has just ended.
            drop(Command::new("kill").args(["-TERM", &pid]).status());
            drop(self.script.wait());
        }
    }
}

fn append(file: &Path, numbers: std::ops::Range<usize>) {
    let mut text = String::new();
    for number in numbers {
        writeln!(text, "line {number}").unwrap();
    }
    let mut file = fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn line_count(file: &Path) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("connect");
    drop(fs::remove_dir_all(&folder)); // There is none at the first run.
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn configs(input: &Path, output: &Path) -> [(&'static str, String); 2] {
    let config = |class: &str, file: &Path, more: &str| {
        format!(
            r#"{{"connector.class": "org.apache.kafka.connect.file.FileStream{class}Connector", "tasks.max": "1",
            "file": "{}", {more}}}"#,
            file.display()
        )
    };
    [
        ("source", config("Source", input, r#""topic": "lines", "exactly.once.support": "required""#)),
        ("sink", config("Sink", output, r#""topics": "lines""#)),
    ]
}

#[test]
fn a_file_goes_through_a_connect_worker() {
    if !has_tools("the Connect worker", &[("java", "-version"), ("mvn", "-version")]) {
        return;
    }
    let fetched = Command::new(workspace().join(SCRIPT)).arg("fetch").status().unwrap();
    assert!(fetched.success(), "the worker's jars are there");
    let server;
    let bootstrap = if let Ok(bootstrap) = std::env::var("INTEROP_BOOTSTRAP") {
        bootstrap
    } else {
        server = Sharemark::start_on_free_port(&[]).unwrap();
        server.bootstrap().to_string()
    };
    let folder = folder();
    let (input, output) = (folder.join("input.txt"), folder.join("output.txt"));
    append(&input, 0..LINES / 2);

    let first = Worker::start(&bootstrap);
    for (name, config) in &configs(&input, &output) {
        first.configure(name, config);
        until(&format!("the {name} runs"), || first.runs(name));
    }
    until("the first half is through", || LINES / 2 <= line_count(&output));
    first.stop();

    append(&input, LINES / 2..LINES);
    let second = Worker::start(&bootstrap);
    until("the second half is through", || LINES <= line_count(&output));
    second.stop();
    assert_eq!(fs::read_to_string(&output).unwrap(), fs::read_to_string(&input).unwrap());
    println!("{LINES} lines went through a Connect worker that was started twice");
}
