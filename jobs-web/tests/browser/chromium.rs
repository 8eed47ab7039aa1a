//! Chromium, steered by its DevTools protocol through two pipes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a page may take, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tab of a browser.
pub(crate) struct Tab {
    browser: Child,
    input: File,
    messages: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// The URLs that the page has asked for.
    pub(crate) requests: Vec<String>,
    /// The messages of the page to the console: errors too, and refusals of the content policy.
    pub(crate) console: Vec<String>,
    _folder: TempDir,
}

impl Tab {
    /// Starts a browser; or says that there is none, and returns none.
    pub(crate) fn start() -> Option<Tab> {
        let version = Command::new("chromium").arg("--version").stderr(Stdio::null()).output();
        if !version.is_ok_and(|version| version.status.success()) {
            eprintln!(
                "skipped: it starts `chromium`, which is not installed: on Debian it is the package chromium"
            );
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let (to, from) = (folder.path().join("to"), folder.path().join("from"));
        let made = Command::new("mkfifo").args([&to, &from]).status().unwrap();
        assert!(made.success());
        // The browser reads from its descriptor 3 and writes to 4.
        let start = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
            --no-first-run --remote-debugging-pipe --user-data-dir=\"$2\" about:blank 3<\"$0\" 4>\"$1\"";
        let browser = Command::new("sh")
            .args(["-c", start])
            .args([&to, &from, &folder.path().join("profile")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = File::options().write(true).open(to).unwrap();
        let output = BufReader::new(File::open(from).unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap();
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut tab = Tab {
            browser,
            input,
            messages,
            session: None,
            last: 0,
            requests: Vec::new(),
            console: Vec::new(),
            _folder: folder,
        };
        let target = tab.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = tab.call("Target.attachToTarget", &attach);
        tab.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(tab)
    }

    /// Calls a method of the protocol.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Calls a method of the protocol, and returns the answer with its error, if it has one.
    fn answer(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        loop {
            let answer = self.messages.recv_timeout(PATIENCE).expect("the browser answers");
            if answer["id"] == json!(self.last) {
                return answer;
            }
            self.note(&answer);
        }
    }

    /// Notes an event.
    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                self.requests.push(params["request"]["url"].as_str().unwrap().to_owned());
            }
            Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") => {
                self.console.push(params.to_string());
            }
            _ => {}
        }
    }

    /// Returns the value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        self.value_or_none(expression).expect("the page stays while it is asked")
    }

    /// Returns the value of an expression in the page. `None`: the page was replaced by the next meanwhile.
    fn value_or_none(&mut self, expression: &str) -> Option<Value> {
        let params = json!({ "expression": expression, "returnByValue": true });
        let answer = self.answer("Runtime.evaluate", &params);
        if answer["error"]["message"] == "Inspected target navigated or closed" {
            return None;
        }
        let result = &answer["result"];
        let is_value = answer["error"].is_null() && result["exceptionDetails"].is_null();
        assert!(is_value, "{expression}: {answer}");
        Some(result["result"]["value"].clone())
    }

    /// Waits until an expression is true. A page without a script is loaded again now and then.
    pub(crate) fn wait(&mut self, expression: &str, reloads: bool) {
        let end = Instant::now() + PATIENCE;
        let mut loaded = Instant::now();
        loop {
            // While a page is replaced by the next, there is nothing to ask.
            let guarded = format!(
                "(() => {{ try {{ return document.readyState === 'complete' && !!({expression}) }} catch {{ return false }} }})()"
            );
            if self.value_or_none(&guarded) == Some(json!(true)) {
                return;
            }
            let page = self.value_or_none("location.href + ' ' + document.body?.innerText");
            assert!(Instant::now() < end, "never {expression}: {page:?}");
            // A form that was just sent has its time: a load would take its place.
            if reloads && loaded.elapsed() > Duration::from_millis(1800) {
                self.call("Page.reload", &json!({}));
                loaded = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Opens a page, and waits until it is there.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
        self.wait(&format!("location.href === {}", json!(url)), false);
    }

    /// Clicks the first element that matches the selector and has the text, by the mouse.
    pub(crate) fn click(&mut self, selector: &str, text: &str) {
        self.clicks(selector, text, 1);
    }

    /// Clicks twice, without a pause.
    pub(crate) fn double_click(&mut self, selector: &str, text: &str) {
        self.clicks(selector, text, 2);
    }

    fn clicks(&mut self, selector: &str, text: &str, clicks: u32) {
        let find = format!(
            "[...document.querySelectorAll({})].find((one) => one.innerText.includes({}) || {} === '')",
            json!(selector),
            json!(text),
            json!(text)
        );
        self.wait(&find, false);
        let place = format!(
            "(() => {{ const one = {find}; one.scrollIntoView({{ block: 'center' }}); const r = one.getBoundingClientRect(); \
             return [r.x + r.width / 2, r.y + r.height / 2] }})()"
        );
        let place = self.value(&place);
        for click in 1..=clicks {
            for what in ["mousePressed", "mouseReleased"] {
                let event = json!({
                    "type": what, "x": place[0], "y": place[1], "button": "left", "clickCount": click,
                });
                self.call("Input.dispatchMouseEvent", &event);
            }
        }
    }

    /// Presses a key that has a character.
    pub(crate) fn press(&mut self, key: &str) {
        for what in ["keyDown", "keyUp"] {
            let text = if what == "keyDown" { key } else { "" };
            self.call("Input.dispatchKeyEvent", &json!({ "type": what, "key": key, "text": text }));
        }
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        // Closing the pipe ends the browser and its processes; a kill would leave these.
        let _ = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let _ = self.browser.wait();
    }
}
