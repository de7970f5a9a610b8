//! The sizes of the values of expressions, known from constants, types or the schema at the
//! expression's path.

use std::collections::HashMap;

use super::ast::{Expr, Literal, Node};
use super::size::Size;
use super::types::Type;

/// Bounds on the sizes of values, as a schema declares them.
pub trait Sizes {
    /// The greatest size of the value at a path, if it is known. A path is a variable, then fields,
    /// with `@items`, `@keys` and `@values` for the elements of lists and maps.
    fn greatest(&self, path: &[String]) -> Option<u64>;
}

/// A variable of a macro.
pub(super) struct Local<'a> {
    pub name: &'a str,
    pub path: Vec<String>,
    pub size: Option<Size>,
    pub elements: Option<Size>,
}

pub(super) struct Estimator<'a> {
    types: &'a [Type],
    sizes: &'a dyn Sizes,
    /// The paths of expressions by their numbers.
    pub(super) paths: HashMap<usize, Vec<String>>,
    computed: HashMap<usize, Size>,
    /// The sizes of the elements of lists and of the values of maps.
    elements: HashMap<usize, Size>,
    /// The variables of macros, the innermost last.
    pub(super) locals: Vec<Local<'a>>,
}

impl<'a> Estimator<'a> {
    pub(super) fn new(types: &'a [Type], sizes: &'a dyn Sizes) -> Self {
        Self {
            types,
            sizes,
            paths: HashMap::new(),
            computed: HashMap::new(),
            elements: HashMap::new(),
            locals: Vec::new(),
        }
    }

    pub(super) fn ty(&self, expr: &Expr) -> &'a Type {
        self.types.get(expr.id).unwrap_or(&Type::Dyn)
    }

    pub(super) fn local(&self, expr: &Expr) -> Option<&Local<'a>> {
        let Node::Ident(name) = &expr.node else {
            return None;
        };
        self.locals.iter().rfind(|local| local.name == name)
    }

    fn path(&self, expr: &Expr) -> Vec<String> {
        match self.local(expr) {
            Some(local) => local.path.clone(),
            None => self.paths.get(&expr.id).cloned().unwrap_or_default(),
        }
    }

    pub(super) fn path_below(&self, expr: &Expr, part: &str) -> Vec<String> {
        let mut path = self.path(expr);
        path.push(part.to_owned());
        path
    }

    pub(super) fn size_at(&self, path: &[String]) -> Option<Size> {
        if path.is_empty() {
            None
        } else {
            self.sizes.greatest(path).map(|max| Size { min: 0, max })
        }
    }

    /// The size of an expression's value, if anything is known about it.
    pub(super) fn known_size(&self, expr: &Expr) -> Option<Size> {
        let literal = match &expr.node {
            Node::Literal(Literal::String(text)) => Some(text.chars().count()),
            Node::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            Node::Literal(_) => Some(1),
            Node::List(elements) => Some(elements.len()),
            Node::Map(entries) => Some(entries.len()),
            _ => None,
        };

        self.computed
            .get(&expr.id)
            .copied()
            .or(literal.map(Size::of))
            .or_else(|| self.size_at(&self.path(expr)))
            .or_else(|| is_scalar(self.ty(expr)).then(|| Size::of(1)))
            .or_else(|| self.local(expr)?.size)
    }

    /// Like [`Self::known_size`], with [`Size::UNKNOWN`] if nothing is known.
    pub(super) fn size(&self, expr: &Expr) -> Size {
        self.known_size(expr).unwrap_or(Size::UNKNOWN)
    }

    /// The size of a list's elements according to the schema.
    pub(super) fn element_size(&self, list: &Expr) -> Size {
        if self.path(list).is_empty() {
            return Size::UNKNOWN;
        }
        self.size_at(&self.path_below(list, "@items"))
            .unwrap_or(Size::UNKNOWN)
    }

    pub(super) fn known_elements(&self, expr: &Expr) -> Option<Size> {
        self.elements
            .get(&expr.id)
            .copied()
            .or_else(|| self.local(expr)?.elements)
    }

    pub(super) fn set_size(&mut self, expr: &Expr, size: Option<Size>) {
        self.computed.extend(size.map(|size| (expr.id, size)));
    }

    pub(super) fn set_elements(&mut self, expr: &Expr, size: Option<Size>) {
        self.elements.extend(size.map(|size| (expr.id, size)));
    }
}

/// Reports whether all values of a type have the same size.
fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
