//! Casts between a generic type and a known one, to read and write a few types without serde.
//!
//! `Any` does the same, but demands `'static` types, which serde's traits do not.

use std::mem::{ManuallyDrop, transmute_copy};

/// Reports whether two types are the same. The compiler knows the answer, so it drops the other
/// branch from the plugin.
#[inline(always)]
pub(super) fn same<T: ?Sized, U: 'static>() -> bool {
    typeid::of::<T>() == typeid::of::<U>()
}

/// Casts a reference to a `U`, if that is its type.
#[inline(always)]
pub(super) fn downcast<T: ?Sized, U: 'static>(value: &T) -> Option<&U> {
    if !same::<T, U>() {
        return None;
    }

    #[expect(unsafe_code, reason = "see above")]
    // SAFETY: `T` is `U`. Types that differ in lifetimes alone have one id, but `U` has no
    // lifetimes.
    Some(unsafe { &*std::ptr::from_ref(value).cast::<U>() })
}

/// Casts a value to a `T`, if that is its type.
#[inline(always)]
pub(super) fn upcast<T, U: 'static>(value: U) -> Option<T> {
    if !same::<T, U>() {
        return None;
    }

    let value = ManuallyDrop::new(value);
    #[expect(unsafe_code, reason = "see above")]
    // SAFETY: `T` is `U`, as in `downcast`. `value` is neither used again nor dropped.
    Some(unsafe { transmute_copy::<ManuallyDrop<U>, T>(&value) })
}
