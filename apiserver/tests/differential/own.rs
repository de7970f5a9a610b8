//! The embedded server of a run.

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::BodyExt;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use jiff::Timestamp;
use operetta_apiserver::{
    Controllers, EmbeddedServer, Options,
    authn::user::{AUTHENTICATED, MASTERS, User},
    server::{ApiServer, Body, Environment},
};
use tokio::net::TcpListener;
use tower::ServiceExt;

use crate::exchange::{Answer, Request};

const TOKEN: &str = "administrator";

/// An embedded server, used by its administrator.
#[derive(Clone)]
pub struct OwnServer {
    api: ApiServer,
}

impl OwnServer {
    /// Starts a server with a clock and, like the real one, without controllers.
    pub fn start(now: fn() -> Timestamp) -> Self {
        Self::with(now, Controllers::none())
    }

    /// Starts a server with all controllers, on this runtime.
    pub fn with_controllers() -> Self {
        let root_certificate = Some("certificate".into());
        Self::with(
            Timestamp::now,
            Controllers {
                root_certificate,
                ..Controllers::all()
            },
        )
    }

    fn with(now: fn() -> Timestamp, controllers: Controllers) -> Self {
        let mut state = 7_u64;
        let environment = Environment::new(now, move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ (state >> 31)
        });

        let user = User {
            uid: "admin".into(),
            ..User::new("admin", &[MASTERS])
        };

        let options = Options {
            tokens: vec![(TOKEN.into(), user)],
            controllers,
            ..Options::in_memory(environment)
        };

        let server = EmbeddedServer::start(options).expect("a server");
        let running = server.clone();
        tokio::spawn(async move { running.run().await });

        Self {
            api: server.api().clone(),
        }
    }

    /// Sends a request, and returns the whole answer. A stream ends by itself.
    pub async fn send(&self, request: &Request) -> Answer {
        let (parts, body) = self.begin(request).await;
        let body = body.collect().await.expect("a body").to_bytes();
        Answer::new(parts.status.as_u16(), &parts.headers, &body, request)
    }

    /// Sends a request whose answer is a stream.
    pub async fn begin(&self, request: &Request) -> (http::response::Parts, Body) {
        let request = request
            .build(&format!("Bearer {TOKEN}"))
            .map(|body| Body::full(Bytes::from(body)));

        self.api
            .clone()
            .oneshot(request)
            .await
            .expect("the service does not fail")
            .into_parts()
    }

    /// Serves connections, forever, for an administrator without credentials.
    pub async fn listen(self, listener: TcpListener) {
        let user = User {
            uid: "admin".into(),
            ..User::new("admin", &[MASTERS, AUTHENTICATED])
        };

        let service = TowerToHyperService::new(self.api.acting_as(user));
        while let Ok((stream, _)) = listener.accept().await {
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service.clone()));
        }
    }

    /// Reads a stream until it has a number of events, or nothing has come for a while.
    pub async fn events(body: Body, count: usize) -> Vec<u8> {
        let mut stream = body.into_data_stream();
        let mut bytes = Vec::new();

        while bytes.iter().filter(|byte| **byte == b'\n').count() < count {
            match tokio::time::timeout(std::time::Duration::from_secs(2), stream.next()).await {
                Ok(Some(Ok(part))) => bytes.extend_from_slice(&part),
                _ => break,
            }
        }

        bytes
    }
}
