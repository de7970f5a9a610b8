//! The rows of watched objects, as the API server currently renders them.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use operetta_core::{handler::event::Event, object::ObjectKey, status::ApiError};
use operetta_kube::client::table::{Column, Row, Tables};

use super::{
    rows::{Line, Rows},
    source::{Source, patiently},
};

/// The maximum number of concurrent requests for rows.
const AT_ONCE: usize = 8;
/// Up to this many objects, rows are requested one by one. Beyond that, one list renders all rows
/// if more than one in [`SPARSE`] objects has changed.
const FEW: usize = 16;
const SPARSE: usize = 100;

/// A table that grows with each change.
pub struct View {
    /// The columns of the last rows.
    pub columns: Vec<Column>,
    tables: Tables,
    rows: Rows,
}

impl View {
    /// Creates a view.
    pub fn new(source: &Source) -> Self {
        let tables = Tables::new(
            source.api_client.clone(),
            source.resource.clone(),
            source.scope.clone(),
        );

        Self {
            columns: Vec::new(),
            tables,
            rows: Rows::new(&source.resource.kind),
        }
    }

    /// Reads the rows of the existing objects.
    ///
    /// # Errors
    /// Returns the API server's refusal.
    pub async fn begin(&mut self) -> Result<Vec<Line>, ApiError> {
        let table = patiently(async || self.tables.all().await).await?;

        self.set_columns(table.columns);

        let now = Timestamp::now();
        Ok(table
            .rows
            .into_iter()
            .map(|row| self.rows.begin(row, now))
            .collect())
    }

    /// The rows of changed objects.
    ///
    /// # Errors
    /// Returns the API server's refusal.
    pub async fn tell(&mut self, events: &[Event]) -> Result<Vec<Line>, ApiError> {
        let rendered = self.render(self.rows.wanted(events)).await?;

        let now = Timestamp::now();

        let line = |event: &Event| {
            self.rows
                .tell(event, rendered.get(event.object().key()), now)
        };

        Ok(events.iter().filter_map(line).collect())
    }

    /// The rows of the objects that still exist.
    async fn render(
        &mut self,
        wanted: Vec<ObjectKey>,
    ) -> Result<HashMap<ObjectKey, Row>, ApiError> {
        let tables = &self.tables;

        let found = if wanted.len() > FEW && wanted.len() * SPARSE > self.rows.len() {
            vec![patiently(async || tables.all().await).await?]
        } else {
            let one = |key| async move { patiently(async || tables.one(&key).await).await };
            stream::iter(wanted)
                .map(one)
                .buffered(AT_ONCE)
                .try_collect()
                .await?
        };

        let mut rows = HashMap::new();
        for table in found {
            self.set_columns(table.columns);
            rows.extend(table.rows.into_iter().map(|row| (row.key.clone(), row)));
        }

        Ok(rows)
    }

    /// A row for each object, as deleted.
    pub fn end(&mut self) -> Vec<Line> {
        self.rows.end(Timestamp::now())
    }

    fn set_columns(&mut self, columns: Vec<Column>) {
        if !columns.is_empty() {
            self.rows.set_columns(&columns);
            self.columns = columns;
        }
    }
}
