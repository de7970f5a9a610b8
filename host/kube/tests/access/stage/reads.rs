//! The reads of the cells: through the plugin's API, and directly.

use std::collections::BTreeSet;

use http::Request;
use operetta_core::{
    gate::{
        operation::{
            Get, List, ListOptions, Page, PatchBody, Read, Selection, Write, WriteAction,
            WriteOptions,
        },
        raw_request::RawRequest,
    },
    object::ObjectKey,
    ports::ObjectApi,
    status::{ApiError, ErrorKind},
};
use serde_json::Value;

use super::{INDEX, Stage, gvk};
use crate::ways::{Cell, Way};

impl Stage<'_> {
    /// Reports whether the account sees or does what the cell is about; Err when that cannot be
    /// decided.
    pub async fn look(&self, cell: &Cell) -> Result<bool, String> {
        match cell.way {
            Way::Event | Way::Mapping => {
                let delivered = self
                    .delivered
                    .lock()
                    .get(&(cell.account, cell.way, cell.kind, cell.location.clone()))
                    .cloned();
                Ok(delivered.as_ref()
                    == self.touched.lock().get(&(cell.kind, cell.location.clone())))
            }
            Way::RawGet | Way::RawList => {
                // A refusal of the cache is an error here, which the gate puts as the API server
                // would; one of the API server is a response.
                match self.raw(cell).await {
                    Ok((200, _)) => Ok(true),
                    Ok((403, _)) => Ok(false),
                    Err(error) if error.kind == ErrorKind::Forbidden => Ok(false),
                    other => Err(format!("{other:?}")),
                }
            }
            _ => match self.call(cell).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind == ErrorKind::Forbidden => Ok(false),
                Err(error)
                    if error.kind == ErrorKind::NotFound && cell.way == Way::CachedGetAbsent =>
                {
                    Ok(true)
                }
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// The namespaces of the stage that a list of all of them shows.
    pub async fn shown(&self, cell: &Cell) -> Vec<String> {
        let items: Vec<Value> = if cell.way == Way::RawList {
            let list: Value =
                serde_json::from_str(&self.raw(cell).await.expect("answered").1).expect("a list");
            list["items"].as_array().expect("items").clone()
        } else {
            let page = self.list(cell).await.expect("a list");
            page.items
                .iter()
                .map(|item| serde_json::from_str(item.json()).expect("an object"))
                .collect()
        };
        self.namespaces_of(&items)
    }

    /// The namespaces of the stage that have some of these objects.
    pub fn namespaces_of(&self, items: &[Value]) -> Vec<String> {
        let shown: BTreeSet<&str> = items
            .iter()
            .filter_map(|item| item["metadata"]["namespace"].as_str())
            .collect();
        self.locations
            .iter()
            .filter(|location| shown.contains(location.as_str()))
            .cloned()
            .collect()
    }

    /// Makes the read of a cell directly, as the account. Returns the response, or None if it is
    /// Forbidden.
    pub async fn direct(&self, cell: &Cell) -> Option<Value> {
        let request = Request::get(self.path(cell))
            .header("impersonate-user", self.user(cell.account))
            .body(vec![]);
        match self.client.request(request.expect("a request")).await {
            Ok(answer) => Some(answer),
            Err(kube::Error::Api(status)) if status.code == 403 => None,
            Err(error) => panic!("the API server did not answer {cell:?}: {error}"),
        }
    }

    /// The path of the read of a cell.
    fn path(&self, cell: &Cell) -> String {
        let root = if cell.kind.group().is_empty() {
            "api"
        } else {
            "apis"
        };
        let location = cell
            .location
            .as_ref()
            .map_or_else(String::new, |location| format!("namespaces/{location}/"));
        let is_get = matches!(cell.way, Way::CachedGet | Way::LiveGet | Way::RawGet);
        let name = if is_get {
            format!("/{}", self.object(cell.kind))
        } else {
            String::new()
        };
        format!(
            "/{root}/{}/{location}{}{name}",
            cell.kind.api_version(),
            cell.kind.plural()
        )
    }

    async fn raw(&self, cell: &Cell) -> Result<(u16, String), ApiError> {
        let request = RawRequest {
            method: "GET".to_owned(),
            path: self.path(cell),
            cached: true,
            ..RawRequest::default()
        };
        let target = request.target()?;
        let answer = self.apis[cell.account].raw(request, target).await?;
        Ok((answer.status, answer.body))
    }

    /// Makes the call of a cell that is not a list.
    async fn call(&self, cell: &Cell) -> Result<(), ApiError> {
        let api = &self.apis[cell.account];
        let kind = gvk(cell.kind);
        let key = |name: &str| ObjectKey {
            namespace: cell.location.clone(),
            name: name.to_owned(),
        };
        let one = self.object(cell.kind);
        let get = |name: &str, read| Get {
            kind: kind.clone(),
            key: key(name),
            read,
        };
        match cell.way {
            Way::CachedGet => api.get(get(one, Read::Cached)).await.map(drop),
            Way::CachedGetAbsent => api.get(get("absent", Read::Cached)).await.map(drop),
            Way::LiveGet => api.get(get(one, Read::Live)).await.map(drop),
            Way::Status => {
                let action = WriteAction::Patch {
                    key: key(one),
                    subresource: Some("status".to_owned()),
                    body: PatchBody::Merge("{}".to_owned()),
                    force: false,
                };
                api.write(Write {
                    kind,
                    action,
                    options: WriteOptions::default(),
                })
                .await
                .map(drop)
            }
            Way::CachedList | Way::LiveList | Way::ListByOwner | Way::ListByIndex => {
                self.list(cell).await.map(drop)
            }
            Way::RawGet | Way::RawList | Way::Event | Way::Mapping => unreachable!("not a call"),
        }
    }

    /// Makes the list of a cell.
    async fn list(&self, cell: &Cell) -> Result<Page, ApiError> {
        let by_index = || Selection::ByIndex {
            name: INDEX.to_owned(),
            value: self.object(cell.kind).to_owned(),
        };
        let selection = match cell.way {
            Way::ListByOwner => Selection::ByOwner("an-owner".to_owned()),
            Way::ListByIndex => by_index(),
            _ => Selection::All,
        };
        let read = if cell.way == Way::LiveList {
            Read::Live
        } else {
            Read::Cached
        };
        let options = ListOptions {
            selection,
            ..ListOptions::all(cell.location.clone(), read)
        };
        self.apis[cell.account]
            .list(List {
                kind: gvk(cell.kind),
                options,
            })
            .await
    }
}
