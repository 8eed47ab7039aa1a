//! The promises of the dashboard, asked for as a browser and as a program ask: without a network.

mod ask;
mod bulk;
mod forged;
mod hostile;
mod lists;
mod paths;
mod redacted;
mod rights;
mod service;
