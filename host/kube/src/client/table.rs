//! Objects as table rows, as printed by kubectl. The API server renders the rows (`as=Table`),
//! including the printer columns of custom resources.
//!
//! Even a single object is read with `list`, so that an object no longer matching the selector
//! gives no row. If an API server doesn't render tables, rows have name and age, as in kubectl.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    object::{ObjectKey, selector::of_name},
    status::{ApiError, ErrorKind},
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    client::{api_client::ApiClient, requests},
    discovery::ApiResource,
    informer::Scope,
};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// Rows per request, like kubectl's `--chunk-size`.
const PAGE: u32 = 500;
/// Timeout of a single response.
const DEADLINE: Duration = Duration::from_secs(60);

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Column {
    /// The column's name; kubectl prints it in capitals.
    pub name: String,
    /// The priority. Columns above 0 are only shown with `-o wide`.
    pub priority: i32,
}

/// An object's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The object's key.
    pub key: ObjectKey,
    /// The object's metadata.uid.
    pub uid: String,
    /// The object's resourceVersion, if it is a number.
    pub revision: Option<u64>,
    /// The object's metadata.creationTimestamp in RFC 3339; empty if there is none.
    pub created: String,
    /// The cells as written by the API server; there may be fewer than columns.
    pub cells: Vec<String>,
}

/// A table of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows in the API server's order: by namespace, then by name.
    pub rows: Vec<Row>,
}

/// Reads tables.
pub struct Tables {
    api_client: ApiClient,
    resource: Arc<ApiResource>,
    scope: Scope,
}

impl Tables {
    /// Creates a client for the objects of a scope.
    pub fn new(api_client: ApiClient, resource: Arc<ApiResource>, scope: Scope) -> Self {
        Self {
            api_client,
            resource,
            scope,
        }
    }

    /// The current objects.
    ///
    /// # Errors
    /// The API server's error. Never retries.
    pub async fn all(&self) -> Result<Table, ApiError> {
        match self.pages(Some(PAGE)).await {
            // The first page's state was compacted away before we got the next one.
            Err(error) if error.kind == ErrorKind::Expired => self.pages(None).await,
            done => done,
        }
    }

    /// The current state of one object; no row if it is not in the scope.
    ///
    /// # Errors
    /// The API server's error. Never retries.
    pub async fn one(&self, key: &ObjectKey) -> Result<Table, ApiError> {
        let name = of_name(&key.name);
        let fields = if self.scope.fields.is_empty() || self.scope.fields == name {
            name
        } else {
            format!("{},{name}", self.scope.fields)
        };
        let scope = Scope {
            namespace: key.namespace.clone(),
            fields,
            ..self.scope.clone()
        };

        Ok(self.page(&scope, None, "").await?.0)
    }

    async fn pages(&self, limit: Option<u32>) -> Result<Table, ApiError> {
        let (mut table, mut token) = self.page(&self.scope, limit, "").await?;
        while !token.is_empty() {
            let (more, next) = self.page(&self.scope, limit, &token).await?;
            table.rows.extend(more.rows);
            token = next;
        }
        Ok(table)
    }

    async fn page(
        &self,
        scope: &Scope,
        limit: Option<u32>,
        token: &str,
    ) -> Result<(Table, String), ApiError> {
        let limit = limit.map(|limit| limit.to_string()).unwrap_or_default();
        let request = requests::collection(
            &self.resource,
            scope,
            &[("limit", &limit), ("continue", token)],
            TABLE,
        )?;

        let answer = tokio::time::timeout(DEADLINE, self.api_client.send(request)).await;
        let text = answer.map_err(|_| {
            let message = format!("no list of {} within {DEADLINE:?}", self.resource.plural);
            ApiError::new(ErrorKind::TimedOut, message)
        })??;

        read(&text).map_err(|error| {
            ApiError::new(
                ErrorKind::Other,
                format!("the list of {} as a table: {error}", self.resource.plural),
            )
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireTable {
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<WireRow>,
    /// The items, if the API server doesn't render tables.
    #[serde(default)]
    items: Vec<Partial>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(rename = "continue", default)]
    continue_token: String,
}

#[derive(Deserialize)]
struct WireRow {
    cells: Vec<Value>,
    object: Partial,
}

#[derive(Deserialize)]
struct Partial {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    creation_timestamp: Option<String>,
}

fn read(text: &str) -> Result<(Table, String), serde_json::Error> {
    let api_client: WireTable = serde_json::from_str(text)?;
    let token = api_client.metadata.continue_token;
    if api_client.kind != "Table" {
        let columns = ["Name", "Age"].map(|name| Column {
            name: name.to_owned(),
            priority: 0,
        });
        let rows = api_client
            .items
            .into_iter()
            .map(|item| row(item, None))
            .collect();

        return Ok((
            Table {
                columns: columns.into(),
                rows,
            },
            token,
        ));
    }

    let rows = api_client
        .rows
        .into_iter()
        .map(|WireRow { cells, object }| row(object, Some(cells)))
        .collect();

    Ok((
        Table {
            columns: api_client.column_definitions,
            rows,
        },
        token,
    ))
}

fn row(Partial { metadata }: Partial, cells: Option<Vec<Value>>) -> Row {
    let cells = match cells {
        Some(cells) => cells.into_iter().map(text).collect(),
        None => vec![metadata.name.clone()],
    };

    Row {
        key: ObjectKey {
            namespace: metadata.namespace.filter(|namespace| !namespace.is_empty()),
            name: metadata.name,
        },
        uid: metadata.uid,
        revision: metadata.resource_version.parse().ok(),
        created: metadata.creation_timestamp.unwrap_or_default(),
        cells,
    }
}

/// Formats a cell like Go's `fmt.Sprint`.
fn text(cell: Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_keeps_columns_cells_and_keys() {
        let (table, token) = read(
            r#"{"kind":"Table","metadata":{"continue":"t"},
            "columnDefinitions":[{"name":"Name","type":"string","format":"name","priority":0},{"name":"N","type":"integer","priority":1}],
            "rows":[{"cells":["a",3,null,true],"object":{"kind":"PartialObjectMetadata","metadata":{"name":"a","namespace":"n",
            "uid":"u","resourceVersion":"7","creationTimestamp":"2026-11-22T10:00:00Z"}}}]}"#,
        )
        .expect("a table");
        assert_eq!(token, "t");
        assert_eq!(
            table.columns[1],
            Column {
                name: "N".into(),
                priority: 1
            }
        );
        let row = &table.rows[0];
        assert_eq!(
            (&row.key, row.revision),
            (&ObjectKey::namespaced("n", "a"), Some(7))
        );
        assert_eq!(row.cells, ["a", "3", "", "true"]);
    }

    #[test]
    fn unrendered_list_gives_names() {
        let (table, _) =
            read(r#"{"kind":"FooList","items":[{"metadata":{"name":"a"}}]}"#).expect("a list");
        assert_eq!(table.rows[0].cells, ["a"]);
        assert_eq!(
            table
                .columns
                .iter()
                .map(|column| column.name.as_str())
                .collect::<Vec<_>>(),
            ["Name", "Age"]
        );
    }
}
