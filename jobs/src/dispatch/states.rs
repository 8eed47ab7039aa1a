//! The values that handlers share: one of each type.

use core::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use crate::values::fail_and_retry::Fail;

/// The values, by their type.
#[derive(Clone, Default)]
pub(crate) struct States {
    values: Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl States {
    /// Adds a value. Returns `false` if it replaces one of its type.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        Arc::make_mut(&mut self.values).insert(TypeId::of::<T>(), Arc::new(value)).is_none()
    }

    /// Returns the value of this type, or the failure of a run that needs it.
    pub(crate) fn get<T: 'static>(&self) -> Result<&T, Fail> {
        let value = self.values.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref());
        value.ok_or_else(|| {
            let name = type_name::<T>();
            Fail::retry(format!("no state of the type {name}: the builder was given none"))
        })
    }
}
