//! Attacks by people: requests to the endpoints for users, with the tokens of a tenant or without
//! one. They come from a thread of their own, so that sending them does not slow down what this
//! program measures, and from an address of their own.

use std::{
    collections::BTreeMap,
    fmt,
    net::Ipv4Addr,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all, stream};
use operetta_testkit::{Host, TestNamespace, https};
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    time::timeout,
};

use crate::attacks::Attack;

/// The address that attackers use, and that of honest users.
const THEIRS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const HONEST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// The number of ServiceAccounts with a token.
const TOKENS: usize = 4;
/// The longest time that anybody waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long slow readers keep their connections before they open new ones.
const KEPT_OPEN: Duration = Duration::from_secs(20);
/// How many of many connections are opened at the same time.
const OPENED_AT_ONCE: usize = 32;
/// The time between two bytes of a slow request.
const BETWEEN_BYTES: Duration = Duration::from_millis(500);

/// The name of the object whose page is read, which owns many large objects.
pub const PARENT: &str = "parent";
/// The Plugin whose log is followed and whose keys are retried.
pub const PLUGIN: &str = "attacked";

/// The people of a namespace.
#[derive(Clone)]
struct People {
    /// The address of the endpoints for users.
    secure: String,
    namespace: String,
    tokens: Vec<String>,
    /// The divisor of the attacks' sizes.
    divisor: usize,
    answers: Arc<Mutex<Answers>>,
}

/// The number of answers with each status. 0 stands for none.
#[derive(Default)]
struct Answers(BTreeMap<u16, usize>);

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (status, number) in &self.0 {
            match status {
                0 => write!(f, "no answer {number} times; ")?,
                _ => write!(f, "{status} {number} times; ")?,
            }
        }
        Ok(())
    }
}

/// People who attack until this is dropped.
pub struct Crowd {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    name: &'static str,
    answers: Arc<Mutex<Answers>>,
}

impl Crowd {
    /// Starts the part of an attack that people do; None if it has none.
    pub fn start(
        attack: Attack,
        namespace: &TestNamespace<'_>,
        host: &Host,
        divisor: usize,
    ) -> Option<Self> {
        if !attack.is_by_people() {
            return None;
        }
        open_many_files();

        let tokens = (0..TOKENS).map(|number| {
            let name = format!("person-{number}");
            namespace.kubectl(&["create", "serviceaccount", &name]);
            let account = format!("--serviceaccount={}:{name}", namespace.name());
            let role = "--clusterrole=cluster-admin";
            namespace.kubectl(&["create", "rolebinding", &name, role, &account]);
            if attack == Attack::Scrapes {
                namespace.kubectl(&["create", "clusterrolebinding", &name, role, &account]);
            }
            namespace
                .kubectl(&["create", "token", &name])
                .trim()
                .to_owned()
        });

        let answers = Arc::<Mutex<Answers>>::default();
        let people = People {
            secure: host.logged("secure").expect("an address"),
            namespace: namespace.name().to_owned(),
            tokens: tokens.collect(),
            divisor,
            answers: answers.clone(),
        };

        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = people.attack(attack) => unreachable!("an attack never ends by itself"),
                }
            });
        });

        Some(Self {
            stop: Some(stop),
            thread: Some(thread),
            name: attack.name(),
            answers,
        })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
        println!(
            "soak-hostile: {:<22} people got {}",
            self.name,
            self.answers.lock()
        );
    }
}

impl People {
    async fn attack(&self, attack: Attack) {
        let namespace = &self.namespace;
        match attack {
            Attack::PageReaders => {
                let page = format!("/page/objects/core/v1/configmaps/{namespace}/{PARENT}");
                self.get_for_ever(&[page], 64).await;
            }
            Attack::Questions => {
                let of = |what: &str| format!("/{what}/core/v1/configmaps/{namespace}/target-0");
                self.get_for_ever(&[of("why"), of("facts")], 200).await;
            }
            Attack::Retries => {
                let path = format!("/retry/{namespace}/{PLUGIN}");
                loop {
                    let requests = (0..self.sized(100))
                        .map(|number| self.ask(self.request("POST", &path, number)));
                    join_all(requests).await;
                }
            }
            Attack::Scrapes => self.get_for_ever(&["/metrics".to_owned()], 64).await,
            Attack::SlowReaders => self.read_nothing().await,
            Attack::Strangers => self.come_without_token().await,
            _ => std::future::pending().await,
        }
    }

    /// Returns the size of an attack in this run.
    fn sized(&self, full: usize) -> usize {
        full / self.divisor
    }

    fn request(&self, method: &str, path: &str, number: usize) -> String {
        let token = &self.tokens[number % self.tokens.len()];
        request(method, path, token)
    }

    /// Gets these paths again and again, many at once.
    async fn get_for_ever(&self, paths: &[String], at_once: usize) {
        loop {
            let requests = (0..self.sized(at_once)).map(|number| {
                let path = &paths[number % paths.len()];
                self.ask(self.request("GET", path, number))
            });
            join_all(requests).await;
        }
    }

    /// Sends a request over a connection of its own, and counts the answer.
    async fn ask(&self, request: String) {
        self.count(answer(THEIRS, &self.secure, &request).await);
    }

    fn count(&self, status: Option<u16>) {
        let mut answers = self.answers.lock();
        *answers.0.entry(status.unwrap_or_default()).or_default() += 1;
    }

    /// Opens two thousand followed logs and live tables, and reads no more than their status.
    async fn read_nothing(&self) {
        let namespace = &self.namespace;
        let log = format!("/logs/{namespace}/{PLUGIN}?follow=true");
        let table = format!("/page/api/kinds/core/v1/configmaps?namespace={namespace}");

        loop {
            let open = |number: usize| {
                let path = [&log, &table][number % 2];
                let request = self.request("GET", path, number / 2);
                async move {
                    let opening = begin(THEIRS, &self.secure, &request);
                    let opened = timeout(PATIENCE, opening).await.ok().flatten();
                    let (status, connection) = opened.unzip();
                    self.count(status);
                    connection
                }
            };

            let opened = stream::iter(0..self.sized(2_000))
                .map(open)
                .buffer_unordered(OPENED_AT_ONCE);
            let opened: Vec<Option<https::Connection>> = opened.collect().await;
            tokio::time::sleep(KEPT_OPEN).await;
            drop(opened);
        }
    }

    /// Comes with wrong tokens, each of which the host must have reviewed, with handshakes that
    /// never end and with requests that arrive byte by byte.
    async fn come_without_token(&self) {
        let wrong = async {
            for round in 0_u64.. {
                let requests = (0..self.sized(100)).map(|number| {
                    let token = format!("wrong-{round}-{number}");
                    self.ask(request("GET", "/metrics", &token))
                });
                join_all(requests).await;
            }
        };

        let half_open = async {
            loop {
                let mut kept: Vec<TcpStream> = Vec::new();
                for _ in 0..self.sized(400) {
                    let Ok(mut stream) = https::connect_plain(THEIRS, &self.secure).await else {
                        continue;
                    };
                    // The beginning of a record of a handshake.
                    if stream.write_all(&[22, 3, 1]).await.is_ok() {
                        kept.push(stream);
                    }
                }
                tokio::time::sleep(KEPT_OPEN).await;
            }
        };

        let slow = async {
            let mut kept = Vec::new();
            loop {
                while kept.len() < self.sized(400) {
                    let Ok(mut connection) = https::connect(THEIRS, &self.secure).await else {
                        break;
                    };
                    let begun = connection
                        .write_all(b"GET /metrics HTTP/1.1\r\nx-slow: ")
                        .await;
                    if begun.is_ok() {
                        kept.push(connection);
                    }
                }

                let mut still_open = Vec::new();
                for mut connection in kept {
                    if connection.write_all(b"x").await.is_ok() && connection.flush().await.is_ok()
                    {
                        still_open.push(connection);
                    }
                }
                kept = still_open;
                tokio::time::sleep(BETWEEN_BYTES).await;
            }
        };

        tokio::join!(wrong, half_open, slow);
    }
}

/// Lets this process have as many open files as an administrator allows: each connection is one.
fn open_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("at most the maximum");
}

fn request(method: &str, path: &str, token: &str) -> String {
    let accept = match path.contains("/page/api/") {
        true => "text/event-stream",
        false => "*/*",
    };
    format!(
        "{method} {path} HTTP/1.1\r\nhost: host\r\nauthorization: Bearer {token}\r\naccept: {accept}\r\n\
         content-length: 0\r\nconnection: close\r\n\r\n"
    )
}

/// Sends a request over a connection of its own, and reads no more than the status.
async fn begin(from: Ipv4Addr, address: &str, request: &str) -> Option<(u16, https::Connection)> {
    let mut connection = https::connect(from, address).await.ok()?;
    connection.write_all(request.as_bytes()).await.ok()?;

    let mut line = [0; "HTTP/1.1 200".len()];
    connection.read_exact(&mut line).await.ok()?;
    let status = std::str::from_utf8(&line).ok()?.rsplit(' ').next()?;
    Some((status.parse().ok()?, connection))
}

/// Sends a request and reads the whole answer. Returns its status; None if there is none in time.
async fn answer(from: Ipv4Addr, address: &str, request: &str) -> Option<u16> {
    let exchange = async {
        let (status, mut connection) = begin(from, address, request).await?;
        // A server that closes a connection need not end TLS before.
        let _ended = connection.read_to_end(&mut Vec::new()).await;
        Some(status)
    };
    timeout(PATIENCE, exchange).await.ok().flatten()
}

/// A user of an honest team, who reads a log now and then.
pub struct Reader {
    secure: String,
    request: String,
}

/// The answers to a [`Reader`].
#[derive(Default)]
pub struct Visits {
    took: Vec<Duration>,
    failed: usize,
}

impl Reader {
    /// Creates a user who may read the log of the plugin `touch` in this namespace.
    pub fn new(host: &Host, namespace: &TestNamespace<'_>) -> Self {
        namespace.kubectl(&["create", "serviceaccount", "reader"]);
        let account = format!("--serviceaccount={}:reader", namespace.name());
        let log = "--resource=plugins.operetta.dev/log";
        namespace.kubectl(&["create", "role", "reader", "--verb=get", log]);
        namespace.kubectl(&["create", "rolebinding", "reader", "--role=reader", &account]);

        let token = namespace.kubectl(&["create", "token", "reader"]);
        let path = format!("/logs/{}/touch?tail=1", namespace.name());
        Self {
            secure: host.logged("secure").expect("an address"),
            request: request("GET", &path, token.trim()),
        }
    }

    /// Reads the log every half second. Never returns.
    pub async fn visit(&self, visits: &Mutex<Visits>) {
        loop {
            let began = Instant::now();
            let status = answer(HONEST, &self.secure, &self.request).await;
            match status {
                Some(200) => visits.lock().took.push(began.elapsed()),
                _ => visits.lock().failed += 1,
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

impl fmt::Display for Visits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99] = [50, 99].map(|part| crate::latency::percentile(&self.took, part));
        write!(
            f,
            "an honest user's log p50 {p50:.1} ms p99 {p99:.1} ms of {}, and {} times not",
            self.took.len(),
            self.failed
        )
    }
}
