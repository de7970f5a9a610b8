//! The OpenAPI documents: those of built-in kinds as published, those of custom resources from
//! their schemas.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    apiextensions::custom::Custom, apimachinery::json, builtin, server::OpenApiV2, shared::Shared,
};

/// Serves the documents.
pub(crate) struct Documents {
    shared: Arc<Shared>,
    /// The document of version 2 that was last asked for, with the revisions of the definitions in
    /// it.
    version_2: Mutex<Option<(Vec<u64>, Arc<OpenApiV2>)>>,
}

impl Documents {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            version_2: Mutex::default(),
        }
    }

    /// Returns the document of a group and version of custom resources.
    fn custom(&self, group: &str, version: &str) -> Option<Value> {
        let mut merged: Option<Value> = None;
        for custom in self.shared.customs.in_version(group, version) {
            let document = custom.crd.version(version)?.openapi_v3();
            match &mut merged {
                None => merged = Some(document),
                Some(merged) => extend(merged, document),
            }
        }

        merged
    }
}

/// Adds the paths and schemas of a document to another.
fn extend(merged: &mut Value, mut document: Value) {
    for place in ["/paths", "/components/schemas"] {
        let added = document.pointer_mut(place).map(Value::take);
        if let (Some(Value::Object(members)), Some(Value::Object(added))) =
            (merged.pointer_mut(place), added)
        {
            members.extend(added);
        }
    }
}

impl Documents {
    /// Returns the index of the documents: `/openapi/v3`.
    pub fn index(&self) -> Value {
        let mut index = builtin::openapi_v3_index();
        for group in self.shared.resources().groups() {
            for version in self.shared.resources().versions(&group) {
                let name = format!("apis/{group}/{version}");
                let customs = self.shared.customs.in_version(&group, &version);
                if let Some(newest) = customs.iter().map(|custom| custom.revision).max() {
                    // Clients keep a document as long as its hash is the same.
                    let url = format!("/openapi/v3/{name}?hash={newest}-{}", customs.len());
                    index["paths"][name.as_str()] = json!({"serverRelativeURL": url});
                }
            }
        }

        index
    }

    /// Returns the document of a path such as `apis/apps/v1`, in version 3, as JSON.
    pub fn document(&self, path: &str) -> Option<Vec<u8>> {
        if let Some(text) = builtin::openapi_v3(path) {
            return Some(text);
        }

        let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
        self.custom(group, version)
            .map(|document| json::to_vec(&document))
    }

    /// Returns the document of version 2.
    pub fn version_2(&self) -> Arc<OpenApiV2> {
        let customs = self.shared.customs.all();
        let revisions = revisions(&customs);
        let mut made = self.version_2.lock();
        if let Some((of, document)) = &*made
            && *of == revisions
        {
            return Arc::clone(document);
        }

        let mut definitions = builtin::openapi_v2_definitions();
        for version in customs
            .iter()
            .flat_map(|custom| custom.crd.versions())
            .filter(|version| version.is_served())
        {
            definitions.extend(version.openapi_v2());
        }

        let document = Arc::new(OpenApiV2::new(definitions));
        *made = Some((revisions, Arc::clone(&document)));
        document
    }

    /// Forgets the document of version 2 if definitions have changed since.
    pub fn forget_outdated(&self) {
        let now = revisions(&self.shared.customs.all());
        self.version_2.lock().take_if(|(of, _)| *of != now);
    }
}

fn revisions(customs: &[Arc<Custom>]) -> Vec<u64> {
    customs.iter().map(|custom| custom.revision).collect()
}
