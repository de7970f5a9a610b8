//! The test server, `operetta test --serve`, request by request, and `operetta test` on a project.

mod calls;
mod command;
mod premises;

use std::{
    io::{BufRead, BufReader, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

/// A running server. It ends with this.
struct Server {
    address: String,
    process: Child,
}

impl Server {
    /// Starts a server without definitions.
    fn start() -> Self {
        Self::in_folder(tempfile::tempdir().expect("a folder").path())
    }

    fn in_folder(dir: &Path) -> Self {
        Self::with(dir, &[])
    }

    /// Starts a server with further arguments.
    fn with(dir: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(operetta_testkit::program("operetta"));
        command
            .args(["test", "--serve"])
            .arg(dir)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());

        let mut process = command.spawn().expect("operetta");
        let mut address = String::new();
        BufReader::new(process.stdout.take().expect("stdout"))
            .read_line(&mut address)
            .expect("an address");

        Self {
            address: address.trim().to_owned(),
            process,
        }
    }

    fn connect(&self) -> Connection {
        let (_, address) = self.address.split_once('@').expect("TOKEN@ADDRESS");
        Connection {
            stream: BufReader::new(TcpStream::connect(address).expect("a connection")),
        }
    }

    /// Opens a cluster.
    fn open(&self) -> Connection {
        let (token, _) = self.address.split_once('@').expect("TOKEN@ADDRESS");
        let mut connection = self.connect();
        assert_eq!(
            connection.answer(&json!({"call": "open", "token": token})),
            json!({"ok": null})
        );
        connection
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ended = self.process.wait();
    }
}

/// A connection to a server.
struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Sends a line and returns the response; None if the server closes the connection.
    fn line(&mut self, line: &str) -> Option<Value> {
        self.stream
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
            .ok()?;
        let mut response = String::new();
        self.stream.read_line(&mut response).ok()?;
        (!response.is_empty()).then(|| serde_json::from_str(&response).expect("JSON"))
    }

    fn answer(&mut self, request: &Value) -> Value {
        self.line(&request.to_string()).expect("an answer")
    }

    /// Makes a call that succeeds, and returns its value.
    fn ok(&mut self, request: &Value) -> Value {
        let mut answer = self.answer(request);
        assert!(answer.get("ok").is_some(), "{request}: {answer}");
        answer["ok"].take()
    }

    /// Makes a call that is refused, and returns the case and the status's message.
    fn refused(&mut self, request: &Value) -> (String, String) {
        let answer = self.answer(request);
        let text = |value: &Value| {
            value
                .as_str()
                .unwrap_or_else(|| panic!("{request}: {answer}"))
                .to_owned()
        };

        (
            text(&answer["error"]["type"]),
            text(&answer["error"]["status"]["message"]),
        )
    }

    /// Makes a call that fails, and returns the text.
    fn failure(&mut self, request: &Value) -> String {
        let answer = self.answer(request);
        answer["failure"]
            .as_str()
            .unwrap_or_else(|| panic!("{request}: {answer}"))
            .to_owned()
    }
}

fn map_kind() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap"})
}

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": data})
}

/// Returns the `get` of a ConfigMap.
fn get(name: &str, read: &str) -> Value {
    json!({"call": "get", "kind": map_kind(), "key": {"namespace": "ns", "name": name}, "read": read})
}
