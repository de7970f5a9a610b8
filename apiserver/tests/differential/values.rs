//! Values that each server chooses itself, and how they correspond.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use regex::{Captures, Regex};
use serde_json::Value;

use crate::exchange::{Answer, Request, RequestBody};

pub static UID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").expect("a pattern")
});

static PORT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r":(\d{5})/").expect("a pattern"));

static ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b10\.\d+\.\d+\.\d+\b").expect("a pattern"));

/// A one-to-one relation between values of the real and the embedded server.
#[derive(Default)]
struct Pairs {
    own: HashMap<String, String>,
    real: HashMap<String, String>,
}

impl Pairs {
    /// Relates two values, unless one already has a partner.
    fn learn(&mut self, real: &str, own: &str) {
        if !real.is_empty()
            && !own.is_empty()
            && !self.own.contains_key(real)
            && !self.real.contains_key(own)
        {
            self.own.insert(real.into(), own.into());
            self.real.insert(own.into(), real.into());
        }
    }

    /// Relates two values, and forgets their previous partners.
    fn replace(&mut self, real: &str, own: &str) {
        if let Some(before) = self.own.insert(real.into(), own.into()) {
            self.real.remove(&before);
        }

        if let Some(before) = self
            .real
            .insert(own.into(), real.into())
            .filter(|before| before != real)
        {
            self.own.remove(&before);
        }
    }
}

#[derive(Default)]
pub struct Values {
    uids: Pairs,
    revisions: Pairs,
    /// The revisions of lists. Several of one server may correspond to one of the other.
    lists: HashMap<String, String>,
    /// Tokens to continue a list.
    continues: HashMap<String, String>,
    /// The objects that the embedded server refused to write with 501, by resource and name.
    refused: HashSet<String>,
    /// Generated names and bearer tokens.
    random: Pairs,
    /// Cluster IPs and node ports.
    allocated: Pairs,
    /// UIDs of the real server's objects whose cluster IP has been seen.
    seen: HashSet<String>,
}

impl Values {
    /// Learns from both answers to a request.
    pub fn learn(&mut self, is_write: bool, real: &Value, own: &Value) {
        match (real, own) {
            (Value::Object(real), Value::Object(own)) => {
                // The answer to a write may have shown only a part of the object.
                let uid = real
                    .get("metadata")
                    .and_then(|metadata| metadata["uid"].as_str());
                let has_address = real
                    .get("spec")
                    .is_some_and(|spec| spec["clusterIP"].is_string());
                let is_new = uid
                    .filter(|_| has_address)
                    .is_some_and(|uid| self.seen.insert(uid.to_owned()));

                let is_write = is_write || is_new;
                for (key, value) in real {
                    if let Some(other) = own.get(key) {
                        if is_write {
                            self.learn_allocated(key, value, other);
                        }
                        self.learn_member(key, real.contains_key("uid"), value, other);
                        self.learn(is_write, value, other);
                    }
                }

                if let (Some(prefix), Some(Value::String(one)), Some(Value::String(two))) = (
                    real.get("generateName").and_then(Value::as_str),
                    real.get("name"),
                    own.get("name"),
                ) && one.starts_with(prefix)
                {
                    self.random.learn(one, two);
                }
            }
            (Value::Array(real), Value::Array(own)) => {
                if is_write {
                    self.learn_cells(real, own);
                }

                real.iter()
                    .zip(own)
                    .for_each(|(real, own)| self.learn(is_write, real, own));
            }
            (Value::String(real), Value::String(own)) => {
                for (real, own) in UID.find_iter(real).zip(UID.find_iter(own)) {
                    self.uids.learn(real.as_str(), own.as_str());
                }
            }
            _ => {}
        }
    }

    fn learn_member(&mut self, key: &str, is_object: bool, real: &Value, own: &Value) {
        match (key, real, own) {
            ("resourceVersion", Value::String(real), Value::String(own)) if is_object => {
                self.revisions.learn(real, own);
            }
            ("resourceVersion", Value::String(real), Value::String(own)) => {
                self.lists.insert(real.clone(), own.clone());
            }
            ("continue", Value::String(real), Value::String(own)) => {
                self.continues.insert(real.clone(), own.clone());
            }
            ("token", Value::String(real), Value::String(own)) => self.random.learn(real, own),
            _ => {}
        }
    }

    /// Learns the addresses in a table's row.
    fn learn_cells(&mut self, real: &[Value], own: &[Value]) {
        for (real, own) in real
            .iter()
            .zip(own)
            .filter_map(|(real, own)| real.as_str().zip(own.as_str()))
        {
            if [real, own].iter().all(|text| {
                ADDRESS
                    .find(text)
                    .is_some_and(|found| found.len() == text.len())
            }) {
                self.allocated.replace(real, own);
            }
        }
    }

    /// Learns addresses and ports, which become free again with their Service.
    fn learn_allocated(&mut self, key: &str, real: &Value, own: &Value) {
        match (key, real, own) {
            ("clusterIP", Value::String(real), Value::String(own)) if real != "None" => {
                self.allocated.replace(real, own);
            }
            ("nodePort" | "healthCheckNodePort", Value::Number(real), Value::Number(own)) => {
                self.allocated.replace(&real.to_string(), &own.to_string());
            }
            _ => {}
        }
    }

    /// Remembers an object that the embedded server does not implement and thus did not write.
    pub fn note_refusal(&mut self, request: &Request, real: &Answer, own: &Answer) {
        if own.code == 501 && real.code < 300 && request.method != "GET" {
            let path = request.path.split('?').next().unwrap_or_default();
            let name = real.body["metadata"]["name"].as_str().unwrap_or_default();

            let path = if request.method == "POST" {
                format!("{path}/{name}")
            } else {
                path.to_owned()
            };

            self.refused
                .insert(path.trim_end_matches("/scale").to_owned());
        }
    }

    /// Reports whether an object differs because the embedded server refused to write it.
    pub fn is_refused(&self, request: &Request) -> bool {
        let path = request.path.split('?').next().unwrap_or_default();
        let is_one = |refused: &String| {
            path.strip_prefix(refused.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.refused.iter().any(is_one)
    }

    /// Reports whether an item of a list is such an object.
    pub fn is_refused_item(&self, request: &Request, item: &Value) -> bool {
        let path = request.path.split('?').next().unwrap_or_default();
        let metadata = if item["object"].is_object() {
            &item["object"]["metadata"]
        } else {
            &item["metadata"]
        };

        metadata["name"]
            .as_str()
            .is_some_and(|name| self.refused.contains(&format!("{path}/{name}")))
    }

    /// Translates a request for the embedded server.
    pub fn to_own(&self, request: &Request) -> Request {
        let mut own = request.clone();
        own.path = self.own_path(&request.path);
        if let RequestBody::Text(text) = &mut own.body {
            *text = self.own_body_text(text);
        }

        for (_, value) in &mut own.headers {
            *value = self.own_text(value);
        }

        own
    }

    fn own_path(&self, path: &str) -> String {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let segments: Vec<String> = path.split('/').map(|part| self.own_text(part)).collect();

        let path = segments.join("/");
        let parameters: Vec<String> = query
            .split('&')
            .map(|parameter| self.own_parameter(parameter))
            .collect();

        if query.is_empty() {
            path
        } else {
            format!("{path}?{}", parameters.join("&"))
        }
    }

    fn own_parameter(&self, parameter: &str) -> String {
        let Some((name, value)) = parameter.split_once('=') else {
            return parameter.to_owned();
        };

        let plain = percent_encoding::percent_decode_str(value).decode_utf8_lossy();
        let found = match name {
            "resourceVersion" => self
                .lists
                .get(value)
                .or_else(|| self.revisions.own.get(value)),
            "continue" => self.continues.get(plain.as_ref()),
            _ => None,
        };

        let encoded =
            |text: &String| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();

        format!(
            "{name}={}",
            found.map_or_else(|| self.own_text(value), encoded)
        )
    }

    fn own_body_text(&self, text: &str) -> String {
        match serde_json::from_str::<Value>(text) {
            Ok(mut body) if body.is_object() || body.is_array() => {
                // A body without such values stays as is, including duplicate and odd fields.
                let before = body.clone();
                self.own_body("", &mut body);
                if body == before {
                    text.to_owned()
                } else {
                    body.to_string()
                }
            }
            _ => self.own_text(text),
        }
    }

    fn own_body(&self, key: &str, value: &mut Value) {
        match value {
            Value::Object(members) => {
                if members
                    .get("path")
                    .is_some_and(|path| path == "/metadata/resourceVersion")
                    && let Some(value) = members.get_mut("value")
                {
                    self.own_body("resourceVersion", value);
                }

                members
                    .iter_mut()
                    .for_each(|(key, value)| self.own_body(key, value));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.own_body("", item)),
            Value::String(text) if key == "resourceVersion" => {
                if let Some(own) = self.revisions.own.get(text.as_str()) {
                    text.clone_from(own);
                }
            }
            Value::String(text) => *text = self.own_text(text),
            Value::Number(number) if key == "nodePort" => {
                if let Some(own) = self.allocated.own.get(&number.to_string()) {
                    *value = serde_json::from_str(own).expect("a number");
                }
            }
            _ => {}
        }
    }

    fn own_text(&self, text: &str) -> String {
        let text = replace_uids(text, &self.uids.own);
        let bare = text.strip_prefix("Bearer ").unwrap_or(&text);

        match self
            .random
            .own
            .get(bare)
            .or_else(|| self.allocated.own.get(bare).filter(|_| bare.contains('.')))
        {
            Some(own) => text.replace(bare, own),
            None => text,
        }
    }

    /// Replaces the embedded server's UIDs and revisions by the real one's.
    pub fn to_real(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                let is_object = members.contains_key("uid");
                for (key, member) in members {
                    match member {
                        Value::String(text) if key == "resourceVersion" && is_object => {
                            if let Some(real) = self.revisions.real.get(text.as_str()) {
                                text.clone_from(real);
                            }
                        }
                        _ => self.to_real(member),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.to_real(item)),
            Value::String(text) => *text = replace_uids(text, &self.uids.real),
            _ => {}
        }
    }

    /// Replaces addresses in a message, such as `["10.0.0.11"]`, and node ports in a table, such as
    /// `80:30000/TCP`.
    fn allocated_to_real(&self, text: &str) -> String {
        let real = |found: &Captures<'_>| {
            self.allocated
                .real
                .get(&found[1])
                .map_or_else(|| found[0].to_owned(), |real| format!(":{real}/"))
        };

        let text = PORT.replace_all(text, real);
        let real = |found: &Captures<'_>| {
            self.allocated
                .real
                .get(&found[0])
                .map_or(&found[0], String::as_str)
                .to_owned()
        };

        ADDRESS.replace_all(&text, real).into_owned()
    }

    /// Replaces the embedded server's random values by the real one's.
    pub fn random_to_real(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    match member {
                        Value::Number(number) if key.ends_with("odePort") => {
                            if let Some(real) = self.allocated.real.get(&number.to_string()) {
                                *member = serde_json::from_str(real).expect("a number");
                            }
                        }
                        _ => self.random_to_real(member),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.random_to_real(item)),
            Value::String(text) => {
                *text = self.allocated_to_real(text);

                for (own, real) in &self.random.real {
                    if own.len() > 5 && text.contains(own.as_str()) {
                        *text = text.replace(own.as_str(), real);
                    }
                }
            }
            _ => {}
        }
    }
}

fn replace_uids(text: &str, partners: &HashMap<String, String>) -> String {
    let partner = |found: &Captures<'_>| {
        partners
            .get(&found[0])
            .cloned()
            .unwrap_or_else(|| found[0].to_owned())
    };
    UID.replace_all(text, partner).into_owned()
}
