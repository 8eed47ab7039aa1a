//! The type of an error of a run, for the field `error.type` of its span: nothing without the feature `tracing`.

/// The name of the type of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ErrorType(#[cfg(feature = "tracing")] &'static str);

impl ErrorType {
    /// The handler panicked.
    pub(crate) const PANIC: ErrorType = ErrorType::named("panic");
    /// The payload did not decode.
    pub(crate) const UNDECODABLE: ErrorType = ErrorType::named("undecodable");
    /// The run took longer than its time limit.
    pub(crate) const TIME_LIMIT: ErrorType = ErrorType::named("time_limit");
    /// The handler gave up, although its run was not cancelled.
    pub(crate) const INTERRUPTED: ErrorType = ErrorType::named("interrupted");
    /// The type is not known: OpenTelemetry's name for that.
    pub(crate) const OTHER: ErrorType = ErrorType::named("_OTHER");

    const fn named(_name: &'static str) -> ErrorType {
        ErrorType(
            #[cfg(feature = "tracing")]
            _name,
        )
    }

    /// Returns the type of an error that a handler returned. That of a text or of a box says nothing.
    pub(crate) fn of<E>() -> ErrorType {
        ErrorType::of_name(core::any::type_name::<E>())
    }

    #[cfg(not(feature = "tracing"))]
    fn of_name(_name: &'static str) -> ErrorType {
        ErrorType::OTHER
    }

    #[cfg(feature = "tracing")]
    fn of_name(name: &'static str) -> ErrorType {
        use core::any::type_name;
        use std::borrow::Cow;
        use std::error::Error;
        let says_nothing = [
            type_name::<&str>(),
            type_name::<String>(),
            type_name::<Cow<'_, str>>(),
            type_name::<Box<dyn Error + Send + Sync>>(),
        ];
        if says_nothing.contains(&name) { ErrorType::OTHER } else { ErrorType::named(name) }
    }

    #[cfg(feature = "tracing")]
    pub(crate) fn name(self) -> &'static str {
        self.0
    }
}
