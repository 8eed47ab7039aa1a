pub(crate) mod client;
pub(crate) mod insert;
pub(crate) mod keyed;
pub(crate) mod pages;
pub(crate) mod jobs;
pub(crate) mod driver;
pub(crate) mod builder;
pub(crate) mod start;
