//! Answers as bytes: objects, lists, tables and metadata, in the form that the client accepts.

use serde_json::{Map, Value, json};

use super::{
    call::Answer,
    columns::Column,
    list::Page,
    negotiate::Form,
    resource::{Flavor, TableConvertor},
    scale_kind::ScaleKind,
    view::View,
};
use crate::{
    apimachinery::{field::FieldError, json, status::Status},
    store::StoredObject,
};

/// Returns an answer as JSON.
///
/// # Errors
///
/// 406 when the client wants a list, 400 for a wrong `includeObject`.
pub(super) fn answer(view: &View, answer: Answer) -> Result<(u16, Vec<u8>), Status> {
    match answer {
        Answer::Plain(code, value) => Ok((code, json::to_vec(&value))),
        Answer::Scale(scale) => Ok((200, json::to_vec(&self::scale(view, &scale)?))),
        Answer::Stored(code, object) => Ok((code, stored(view, &object)?)),
        Answer::Object(code, mut object) => {
            if view.accepted.form == Form::Object {
                view.add_type(&mut object);
                return Ok((code, json::to_vec(&object)));
            }
            Ok((code, json::to_vec(&own_form(view, &object)?)))
        }
    }
}

/// Returns a stored object as JSON.
///
/// # Errors
///
/// As [`answer`].
pub(super) fn stored(view: &View, object: &StoredObject) -> Result<Vec<u8>, Status> {
    if view.takes_stored_bytes(object) {
        let mut out = Vec::new();
        object.write_json(&mut out, &view.resource.type_meta());
        return Ok(out);
    }

    let mut value = view.open(object)?;
    if view.accepted.form == Form::Object {
        view.add_type(&mut value);
        return Ok(json::to_vec(&value));
    }

    Ok(json::to_vec(&own_form(view, &value)?))
}

/// Returns an object of the resource in another form.
fn own_form(view: &View, object: &Value) -> Result<Value, Status> {
    converted(view, &*view.resource.strategy, object)
}

/// Returns one object in another form.
fn converted(view: &View, convertor: &dyn TableConvertor, object: &Value) -> Result<Value, Status> {
    match &view.accepted.form {
        Form::Table(version) => Ok(table(
            version,
            Some(convertor.columns()),
            table_metadata(object),
            vec![row(view, convertor, version, object)?],
        )),
        Form::Partial(version) => Ok(partial(version, object)),
        Form::PartialList(_) if view.resource.flavor == Flavor::Custom => {
            Err(Status::plain("content is not a list"))
        }
        Form::PartialList(_) => Err(not_a_list(&match object["kind"].as_str() {
            Some("Scale") => "*autoscaling.Scale".to_owned(),
            _ => go_type(view, ""),
        })),
        Form::Object => Ok(object.clone()),
    }
}

/// Returns the metadata of the table of one object. That of a dry run may have no revision.
fn table_metadata(object: &Value) -> Value {
    let revision = object["metadata"].get("resourceVersion");
    Value::Object(
        revision
            .map(|revision| ("resourceVersion".to_owned(), revision.clone()))
            .into_iter()
            .collect(),
    )
}

fn not_a_list(go_type: &str) -> Status {
    let message = "you requested PartialObjectMetadataList, but the requested object is not a list";
    Status::not_acceptable(format!("{message} ({go_type})"))
}

/// Returns the scale of an object in the form that the client accepts.
fn scale(view: &View, scale: &Value) -> Result<Value, Status> {
    match (&view.accepted.form, view.resource.flavor) {
        (Form::PartialList(_), Flavor::Custom) => Err(not_a_list("*v1.Scale")),
        (_, flavor) => converted(view, &ScaleKind(flavor), scale),
    }
}

/// Returns the object of a watch event in the form that the client accepts. Only the first table
/// has columns.
///
/// # Errors
///
/// As [`answer`].
pub(super) fn event_object(view: &View, object: &Value, is_first: bool) -> Result<Value, Status> {
    match &view.accepted.form {
        Form::Table(version) => {
            let columns = is_first.then(|| view.resource.strategy.columns());
            Ok(table(
                version,
                columns,
                table_metadata(object),
                vec![row(view, &*view.resource.strategy, version, object)?],
            ))
        }
        Form::Partial(version) | Form::PartialList(version) => Ok(partial(version, object)),
        Form::Object => {
            let mut object = object.clone();
            view.add_type(&mut object);
            Ok(object)
        }
    }
}

/// Returns a list as JSON.
///
/// # Errors
///
/// 406 when the client wants a single object, 400 for a wrong `includeObject`.
pub(super) fn list(view: &View, page: &Page) -> Result<Vec<u8>, Status> {
    match &view.accepted.form {
        Form::Object => object_list(view, page),
        Form::Table(version) => {
            let rows: Result<_, Status> = page
                .listing
                .items
                .iter()
                .map(|object| row(view, &*view.resource.strategy, version, &view.open(object)?))
                .collect();

            let columns = view.resource.strategy.columns();
            // Kinds without a table of their own have no rows then, not even an empty list of them.
            let has_none = page.listing.items.is_empty()
                && columns.iter().any(|column| column.name == "Created At");
            let mut table = table(version, Some(columns), list_metadata(page, false), rows?);

            if has_none {
                table["rows"] = Value::Null;
            }

            Ok(json::to_vec(&table))
        }
        Form::PartialList(version) => {
            let items: Result<Vec<Value>, Status> = page
                .listing
                .items
                .iter()
                .map(|object| Ok(partial(version, &view.open(object)?)))
                .collect();

            // An empty list has no items in the API server, not even an empty list of them.
            let items = Some(items?).filter(|items| !items.is_empty());
            let list = json!({
                "kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": list_metadata(page, false), "items": items,
            });

            Ok(json::to_vec(&list))
        }
        Form::Partial(_) => Err(Status::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            go_type(view, "List")
        ))),
    }
}

fn object_list(view: &View, page: &Page) -> Result<Vec<u8>, Status> {
    let resource = &view.resource;
    let is_custom = resource.flavor == Flavor::Custom;
    let size: usize = page
        .listing
        .items
        .iter()
        .map(|object| object.size() + 128)
        .sum();
    let mut out = Vec::with_capacity(size + 128);

    let (kind, api_version) = (&resource.names.list_kind, resource.api_version());
    let metadata = list_metadata(page, is_custom);
    let head = format!(
        r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#
    );
    out.extend_from_slice(head.as_bytes());

    let type_meta = if is_custom {
        resource.type_meta()
    } else {
        String::new()
    };

    for (index, object) in page.listing.items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }

        if resource.strategy.reads_as_stored(object.revision()) {
            object.write_json(&mut out, &type_meta);
        } else {
            let mut value = view.open(object)?;
            if is_custom {
                view.add_type(&mut value);
            }
            json::write(&value, &mut out);
        }
    }

    out.extend_from_slice(b"]}");

    Ok(out)
}

/// Returns the metadata of a list. Lists of custom resources have an empty token.
fn list_metadata(page: &Page, is_custom: bool) -> Value {
    let mut metadata = Map::new();
    metadata.insert(
        "resourceVersion".into(),
        page.listing.revision.to_string().into(),
    );

    if is_custom || !page.continue_token.is_empty() {
        metadata.insert("continue".into(), page.continue_token.as_str().into());
    }
    if let Some(remaining) = page.remaining {
        metadata.insert("remainingItemCount".into(), remaining.into());
    }

    Value::Object(metadata)
}

fn partial(version: &str, object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": object["metadata"],
    })
}

fn table(version: &str, columns: Option<Vec<Column>>, metadata: Value, rows: Vec<Value>) -> Value {
    let columns: Option<Vec<Value>> = columns.map(|columns| columns.iter().map(column).collect());
    json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    })
}

fn column(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format, "description": column.description,
        "priority": column.priority,
    })
}

fn row(
    view: &View,
    convertor: &dyn TableConvertor,
    version: &str,
    object: &Value,
) -> Result<Value, Status> {
    let shown = match view.include_object.as_str() {
        "" | "Metadata" => partial(version, object),
        "None" => Value::Null,
        "Object" => {
            let mut typed = object.clone();
            // A scale has its type already, which is not the resource's.
            if typed.get("kind").is_none() {
                view.add_type(&mut typed);
            }
            typed
        }
        other => {
            let error = FieldError::invalid(
                "includeObject",
                other,
                "must be 'Metadata', 'Object', 'None', or empty",
            );

            return Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: {error}"
            )));
        }
    };

    let mut row = json!({"cells": convertor.cells(object, view.now), "object": shown});
    let conditions = convertor.row_conditions(object);
    if !conditions.is_empty() {
        row["conditions"] = conditions.into();
    }
    Ok(row)
}

/// Returns the Go type of an object or list, which some errors name.
fn go_type(view: &View, suffix: &str) -> String {
    let resource = &view.resource;
    match resource.flavor {
        Flavor::Custom => format!("*unstructured.Unstructured{suffix}"),
        Flavor::BuiltIn => {
            let package = resource
                .group
                .split('.')
                .next()
                .filter(|name| !name.is_empty())
                .unwrap_or("core");
            format!("*{package}.{}{suffix}", resource.names.kind)
        }
    }
}
