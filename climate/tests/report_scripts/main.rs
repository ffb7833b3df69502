//! The scripts of a page in a small JavaScript engine: its content, and its reactions to use.

mod engine;
mod events;
mod map;
mod pages;
