//! The scripts of a page, run by a small JavaScript engine: what the page shows, and what it does when it is used.

mod engine;
mod events;
mod map;
mod pages;
