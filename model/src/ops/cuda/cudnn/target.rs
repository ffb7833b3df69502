//! The GPU for which cuDNN makes plans: the one behind a handle or, in tests, one given only by its properties.

use super::descriptor::{Attribute, Descriptor};
use super::library::{Answer, Pointer};

/// A target GPU.
pub(super) enum Target {
    /// The GPU of this handle, on which plans run.
    Handle(Pointer),
    /// A GPU that need not exist: cuDNN selects engines and makes plans for it that cannot be run.
    #[cfg(test)]
    Described(Descriptor),
}

/// The two attributes that set a descriptor's target GPU; some descriptors accept only one of them.
pub(super) struct By {
    pub(super) handle: Option<Attribute<Pointer>>,
    /// For a described GPU.
    pub(super) described: Option<Attribute<Descriptor>>,
}

impl Target {
    pub(super) fn set_on(&self, descriptor: &Descriptor, by: By) -> Answer<()> {
        match (self, by.handle, by.described) {
            (Self::Handle(handle), Some(attribute), _) => descriptor.set_handle(attribute, *handle),
            #[cfg(test)]
            (Self::Described(gpu), _, Some(attribute)) => {
                descriptor.set_descriptors(attribute, &[gpu])
            }
            _ => Ok(()),
        }
    }

    /// The handle on which plans run; null if they cannot.
    pub(super) fn handle(&self) -> Pointer {
        match self {
            Self::Handle(handle) => *handle,
            #[cfg(test)]
            Self::Described(_) => std::ptr::null_mut(),
        }
    }
}
