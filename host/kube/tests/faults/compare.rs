//! A store against what the API server lists, byte for byte but for what the store leaves out on
//! purpose.

use std::collections::BTreeMap;

use kube::Client;
use operetta_kube::informer::Informer;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::notes::Seen;

/// The fields of an object, each as its text; those of metadata one by one, because they are cut
/// there.
type Fields = BTreeMap<String, String>;

/// A list of the API server, by name.
pub struct Listed(BTreeMap<String, Fields>);

#[derive(Deserialize)]
struct List {
    items: Vec<Box<RawValue>>,
}

fn fields(text: &str, whole: bool) -> Fields {
    let frame = |text: &str| -> BTreeMap<String, Box<RawValue>> {
        serde_json::from_str(text).expect("an object")
    };
    let mut all = frame(text);
    let metadata = all
        .remove("metadata")
        .map(|metadata| frame(metadata.get()))
        .unwrap_or_default();
    let metadata = metadata
        .into_iter()
        .map(|(name, value)| (format!("metadata.{name}"), value));
    // Of metadata alone, a list and a watch call the kind differently.
    let all = all
        .into_iter()
        .filter(|(name, _)| whole || !["kind", "apiVersion"].contains(&name.as_str()));
    let all = all
        .chain(metadata)
        .filter(|(name, _)| name != "metadata.managedFields");
    all.map(|(name, value)| (name, value.get().to_owned()))
        .collect()
}

fn text(fields: &Fields, name: &str) -> String {
    fields
        .get(name)
        .map(|text| text.trim_matches('"').to_owned())
        .unwrap_or_default()
}

impl Listed {
    /// What an informer should have, by a list of its own.
    pub async fn of(client: &Client, informer: &Informer) -> Self {
        let resource = &informer.resource;
        let scope = &informer.scope;
        let path = resource.collection_path(scope.namespace.as_deref());
        let labels = scope.labels.replace('=', "%3D");
        let accept = if scope.metadata_only {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        } else {
            "application/json"
        };
        let request =
            http::Request::get(format!("{path}?labelSelector={labels}")).header("accept", accept);
        let answer = client
            .request_text(request.body(Vec::new()).expect("a request"))
            .await
            .expect("a list");
        let list: List = serde_json::from_str(&answer).expect("a list");
        let objects = list.items.iter().map(|item| {
            let mut fields = fields(item.get(), !scope.metadata_only);
            if !scope.metadata_only {
                fields.insert("kind".to_owned(), format!("{:?}", resource.kind.kind));
                fields.insert(
                    "apiVersion".to_owned(),
                    format!("{:?}", resource.kind.api_version),
                );
            }
            (text(&fields, "metadata.name"), fields)
        });
        Self(objects.collect())
    }

    /// Where the store differs; empty if it does not.
    pub fn differences(&self, informer: &Informer) -> Vec<String> {
        let lookup = operetta_kube::store::Lookup::All;
        let stored = informer.cache.store.list(&lookup, None, None);
        let whole = !informer.scope.metadata_only;
        let stored: BTreeMap<String, Fields> = stored
            .map(|object| (object.key().name.clone(), fields(object.json(), whole)))
            .collect();
        let names = self
            .0
            .keys()
            .chain(stored.keys().filter(|name| !self.0.contains_key(*name)));
        let wrong = names.filter_map(|name| match (self.0.get(name), stored.get(name)) {
            (Some(listed), Some(stored)) if listed == stored => None,
            (Some(listed), Some(stored)) => {
                let mut names = listed.keys().chain(stored.keys());
                let field = names.find(|field| listed.get(*field) != stored.get(*field))?;
                let short = |fields: &Fields| {
                    fields
                        .get(field)
                        .map(|text| text.chars().take(200).collect::<String>())
                };
                Some(format!(
                    "{name}: {field} is {:?} and in the store {:?}",
                    short(listed),
                    short(stored)
                ))
            }
            (Some(_), None) => Some(format!("{name} is not in the store")),
            (None, _) => Some(format!("{name} is in the store, and does not exist")),
        });
        wrong.collect()
    }

    /// Where a handler's view differs; empty if it does not.
    pub fn differs_from(&self, delivered: &BTreeMap<String, Seen>) -> Vec<String> {
        let seen = |fields: &Fields| Seen {
            uid: text(fields, "metadata.uid"),
            revision: text(fields, "metadata.resourceVersion")
                .parse()
                .unwrap_or_default(),
        };
        let listed: BTreeMap<&String, Seen> = self
            .0
            .iter()
            .map(|(name, fields)| (name, seen(fields)))
            .collect();
        let mut wrong: Vec<String> = Vec::new();
        for (name, listed) in &listed {
            if delivered.get(*name) != Some(listed) {
                wrong.push(format!(
                    "{name} is {listed:?}, and was delivered as {:?}",
                    delivered.get(*name)
                ));
            }
        }
        wrong.extend(
            delivered
                .keys()
                .filter(|name| !listed.contains_key(name))
                .map(|name| format!("{name} is not there, and was delivered")),
        );
        wrong
    }
}
