//! Runs a page in a JavaScript engine, with `dom.js` as the browser and `hands.js` as the reader.

use flate2::read::ZlibDecoder;
use rquickjs::{CatchResultExt, Coerced, Context, FromJs, Function, Runtime};
use serde_json::Value;
use std::cell::RefCell;
use std::io::{Cursor, Read as _};
use std::rc::Rc;

/// Parses the page and evaluates to its own scripts, without its data.
const SCRIPTS: &str = "parse(html, page);
    page.querySelectorAll('script').filter((s) => !s.type).map((s) => s.textContent).join('')";

/// An open page.
pub struct Browser {
    context: Context,
    /// Uncaught exceptions.
    thrown: Rc<RefCell<Vec<String>>>,
}

impl Browser {
    /// Opens the page and runs its scripts.
    pub fn open(html: &str) -> Self {
        Self::open_after("", html)
    }

    /// The same, after running code in the browser.
    pub fn open_after(before: &str, html: &str) -> Self {
        let runtime = Runtime::new().expect("an engine");
        let thrown = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&thrown);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |_, _, reason: rquickjs::Value<'_>, is_handled| {
                if !is_handled {
                    let text = reason.get::<Coerced<String>>();
                    let text = text.map_or_else(|error| error.to_string(), |text| text.0);
                    seen.borrow_mut().push(text);
                }
            },
        )));
        let context = Context::full(&runtime).expect("a context");
        context.with(|ctx| {
            let globals = ctx.globals();
            let inflate = Function::new(ctx.clone(), inflate).expect("a function");
            globals.set("inflate", inflate).expect("a global");
            let grey = Function::new(ctx.clone(), grey).expect("a function");
            globals.set("grey", grey).expect("a global");
            globals.set("html", html).expect("a global");
        });
        let browser = Self { context, thrown };
        browser.run::<()>(include_str!("dom.js"));
        browser.run::<()>(include_str!("hands.js"));
        browser.run::<()>(before);
        let scripts: String = browser.run(SCRIPTS);
        browser.does(&scripts);
        browser
    }

    /// Runs code, and all jobs that it queues.
    pub fn does(&self, code: &str) {
        self.run::<()>(code);
        let runtime = self.context.runtime();
        while runtime.is_job_pending() {
            runtime.execute_pending_job().expect("a job");
        }
        let thrown = self.thrown.borrow();
        assert!(thrown.is_empty(), "{code:.200}: {thrown:?}");
    }

    /// # Panics
    /// If an expression has another value; `undefined` counts as null.
    #[track_caller]
    pub fn shows(&self, expression: &str, expected: Value) {
        let text: String = self.run(&format!("JSON.stringify(({expression}) ?? null)"));
        let found: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(found, expected, "{expression}");
    }

    fn run<T: for<'js> FromJs<'js>>(&self, code: &str) -> T {
        self.context.with(|ctx| {
            let result = ctx.eval::<T, _>(code).catch(&ctx);
            result.unwrap_or_else(|error| panic!("{code:.200}: {error}"))
        })
    }
}

fn inflate(bytes: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut decoder = ZlibDecoder::new(bytes.as_slice());
    // Damaged data end early, which the script notices.
    let _ = decoder.read_to_end(&mut out);
    out
}

/// The levels of a grey picture, 0 to 255.
fn grey(bytes: Vec<u8>) -> Vec<u8> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().expect("a PNG");
    let mut levels = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut levels).expect("a picture");
    levels
}
