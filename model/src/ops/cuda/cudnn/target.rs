//! The GPU that cuDNN makes plans for: the one behind a handle or, in tests, one of which it gets only the properties.

use super::descriptor::{Attribute, Descriptor};
use super::library::{Answer, Pointer};

/// A GPU, as cuDNN knows it.
pub(super) enum Target {
    /// That of the handle, where plans run.
    Handle(Pointer),
    /// One that need not be there: cuDNN names engines for it and makes plans that nothing can run.
    #[cfg(test)]
    Described(Descriptor),
}

/// The two attributes by which a descriptor is told its GPU; some take only one of them.
pub(super) struct By {
    pub(super) handle: Option<Attribute<Pointer>>,
    /// A description.
    pub(super) described: Option<Attribute<Descriptor>>,
}

impl Target {
    pub(super) fn tell(&self, descriptor: &Descriptor, by: By) -> Answer<()> {
        match (self, by.handle, by.described) {
            (Self::Handle(handle), Some(attribute), _) => descriptor.set_handle(attribute, *handle),
            #[cfg(test)]
            (Self::Described(gpu), _, Some(attribute)) => {
                descriptor.set_descriptors(attribute, &[gpu])
            }
            _ => Ok(()),
        }
    }

    /// What plans run on; null where they cannot.
    pub(super) fn handle(&self) -> Pointer {
        match self {
            Self::Handle(handle) => *handle,
            #[cfg(test)]
            Self::Described(_) => std::ptr::null_mut(),
        }
    }
}
