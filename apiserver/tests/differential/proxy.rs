//! A proxy between kubectl and the real server, which also sends each request to the embedded server.

use std::{convert::Infallible, path::Path, process::Stdio, time::Duration};

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use operetta_apiserver::server::Body;
use tokio::{
    net::TcpListener,
    process::{Child, Command},
    sync::{mpsc, oneshot},
};

use crate::{
    exchange::{Answer, Request, Step},
    live::program,
    own::OwnServer,
    runner::Runner,
};

/// The request headers that reach the servers.
const KEPT: [&str; 3] = ["accept", "content-type", "user-agent"];

/// A message to the owner of the servers.
enum Message {
    /// kubectl sends a request.
    Request(Request, oneshot::Sender<http::Response<Body>>),
    /// A stream has ended.
    End {
        id: usize,
        request: Request,
        real: Answer,
        own: Answer,
    },
}

/// The address at which kubectl sends its requests.
pub struct Proxy {
    address: String,
    messages: mpsc::UnboundedReceiver<Message>,
    sender: mpsc::UnboundedSender<Message>,
    streams: usize,
    open: usize,
}

impl Proxy {
    /// Listens on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));

        let (sender, messages) = mpsc::unbounded_channel();
        tokio::spawn(accept(listener, sender.clone()));

        Self {
            address,
            messages,
            sender,
            streams: 0,
            open: 0,
        }
    }

    /// Starts kubectl in a folder.
    pub fn kubectl(&self, folder: &Path, arguments: &[&str], editor: &str) -> Child {
        let mut command = Command::new(program("kubectl"));
        command
            .args(["--server", &self.address, "--cache-dir"])
            .arg(folder.join("cache"))
            .args(arguments);

        command
            .current_dir(folder)
            .env("KUBE_EDITOR", editor)
            .env("KUBECONFIG", folder.join("none"))
            .env("GOGC", "off");

        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);

        command.spawn().expect("kubectl starts")
    }

    /// Answers requests until kubectl ends, for ten seconds at most.
    pub async fn until_end(&mut self, runner: &mut Runner, kubectl: &mut Child) {
        let limit = tokio::time::sleep(Duration::from_secs(10));
        tokio::pin!(limit);

        loop {
            tokio::select! {
                message = self.messages.recv() => self.handle(runner, message).await,
                _ = kubectl.wait() => return,
                () = &mut limit => return,
            }
        }
    }

    pub async fn during(&mut self, runner: &mut Runner, time: Duration) {
        let limit = tokio::time::sleep(time);
        tokio::pin!(limit);
        loop {
            tokio::select! {
                message = self.messages.recv() => self.handle(runner, message).await,
                () = &mut limit => return,
            }
        }
    }

    /// Waits until all streams have ended.
    pub async fn drain(&mut self, runner: &mut Runner) {
        for _ in 0..50 {
            if self.open == 0 {
                return;
            }
            self.during(runner, Duration::from_millis(100)).await;
        }
    }

    async fn handle(&mut self, runner: &mut Runner, message: Option<Message>) {
        match message {
            Some(Message::Request(request, reply)) if request.is_watch() => {
                self.stream(runner, request, reply).await;
            }
            Some(Message::Request(request, reply)) => {
                let answer = runner.send(request).await;
                let _gone = reply.send(response(&answer));
            }
            Some(Message::End {
                id,
                request,
                real,
                own,
            }) => {
                self.open -= 1;

                runner.comparison.check(
                    runner.source,
                    &request,
                    &real,
                    &own,
                    jiff::Timestamp::now(),
                );

                runner.steps.push(Step::End {
                    source: runner.source.into(),
                    end: id,
                    a: real,
                });
            }
            None => {}
        }
    }

    /// Begins a stream on both servers. It ends with the real server's, or when kubectl stops reading.
    async fn stream(
        &mut self,
        runner: &mut Runner,
        request: Request,
        reply: oneshot::Sender<http::Response<Body>>,
    ) {
        let (real_parts, real) = runner.real.begin(&request).await;
        let (own_parts, own) = runner.own.begin(&runner.comparison.to_own(&request)).await;

        let id = runner.steps.len();
        runner.steps.push(Step::Begin {
            begin: id,
            at: jiff::Timestamp::now().as_millisecond(),
            q: request.clone(),
        });

        self.streams += 1;
        self.open += 1;

        let (parts, receiver) = mpsc::unbounded_channel::<Bytes>();
        let body = futures::stream::unfold(receiver, |mut parts| async move {
            Some((parts.recv().await?, parts))
        });

        let mut response = http::Response::new(Body::stream(body));
        *response.status_mut() = real_parts.status;
        if let Some(media) = real_parts.headers.get("content-type") {
            response.headers_mut().insert("content-type", media.clone());
        }

        let _gone = reply.send(response);
        let sender = self.sender.clone();

        tokio::spawn(async move {
            let bytes = copied(real, &parts).await;
            let count = bytes.iter().filter(|byte| **byte == b'\n').count();
            let own_bytes = OwnServer::events(own, count).await;

            let real = Answer::new(
                real_parts.status.as_u16(),
                &real_parts.headers,
                &bytes,
                &request,
            );
            let own = Answer::new(
                own_parts.status.as_u16(),
                &own_parts.headers,
                &own_bytes,
                &request,
            );

            let _over = sender.send(Message::End {
                id,
                request,
                real,
                own,
            });
        });
    }
}

/// Forwards a stream as long as somebody reads it, and returns what was forwarded.
async fn copied(stream: Incoming, to: &mpsc::UnboundedSender<Bytes>) -> Vec<u8> {
    let mut stream = stream.into_data_stream();
    let mut all = Vec::new();

    loop {
        tokio::select! {
            part = stream.next() => {
                let Some(Ok(part)) = part else { return all };
                all.extend_from_slice(&part);
                if to.send(part).is_err() {
                    return all;
                }
            }
            () = to.closed() => return all,
        }
    }
}

async fn accept(listener: TcpListener, sender: mpsc::UnboundedSender<Message>) {
    while let Ok((stream, _)) = listener.accept().await {
        let sender = sender.clone();
        let service = service_fn(move |request| answer(request, sender.clone()));
        tokio::spawn(
            hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service),
        );
    }
}

async fn answer(
    request: http::Request<Incoming>,
    sender: mpsc::UnboundedSender<Message>,
) -> Result<http::Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();

    let path = parts
        .uri
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str);

    let mut copy = Request::new(parts.method.as_str(), path).bytes(&body);
    for name in KEPT {
        if let Some(value) = parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
        {
            // The embedded server answers in JSON, so the real one should as well.
            copy = copy.header(
                name,
                value.trim_start_matches("application/vnd.kubernetes.protobuf,"),
            );
        }
    }

    let (reply, replied) = oneshot::channel();
    let _over = sender.send(Message::Request(copy, reply));

    let gone = || {
        http::Response::builder()
            .status(503)
            .body(Body::full(""))
            .expect("a response")
    };

    Ok(replied.await.unwrap_or_else(|_| gone()))
}

/// Builds an answer for kubectl.
fn response(answer: &Answer) -> http::Response<Body> {
    let body = answer
        .body
        .as_str()
        .map_or_else(|| answer.body.to_string(), str::to_owned);

    let mut builder = http::Response::builder()
        .status(answer.code)
        .header("content-type", &answer.media);

    for warning in &answer.warnings {
        builder = builder.header("warning", warning);
    }

    builder.body(Body::full(body)).expect("a response")
}
