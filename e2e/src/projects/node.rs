//! A package whose dependency comes as tarballs.

use super::Project;
use crate::World;

const MANIFEST: &str = "{\n  \"name\": \"label\",\n  \"version\": \"1.0.0\",\n  \"private\": true,\n  \"scripts\": { \"test\": \"node --test\" },\n  \"dependencies\": { \"pad\": \"file:vendor/pad-1.0.0.tgz\" }\n}\n";
const CODE: &str = "const pad = require('pad');\n\nexports.label = (text, width) => pad(text, width);\n";
/// What was meant as an improvement.
const BROKEN: &str = "const pad = require('pad');\n\nexports.label = (text, width) => pad(text.trim(), width - text.length);\n";
const TESTS: &str = "const test = require('node:test');\nconst assert = require('node:assert');\nconst { label } = require('../label');\n\ntest('short labels are padded', () => assert.strictEqual(label('ab', 4), 'ab  '));\ntest('long labels stay', () => assert.strictEqual(label('abcdef', 4), 'abcdef'));\n";
/// Mends it by half.
const FIX: &str = "--- a/label.js\n+++ b/label.js\n@@ -1,3 +1,3 @@\n const pad = require('pad');\n \n-exports.label = (text, width) => pad(text.trim(), width - text.length);\n+exports.label = (text, width) => pad(text, width - text.length);\n";

/// The last commit is what broke it.
#[must_use]
pub fn node(w: &World) -> Project {
    w.write("package.json", MANIFEST);
    w.write(".gitignore", "node_modules\n");
    pack(w, "1.0.0", "module.exports = (text, width) => text.padEnd(width);\n");
    pack(w, "2.0.0", "module.exports = (text, width) => String(text).padEnd(Math.max(width, 0));\n");
    w.write("label.js", CODE);
    w.write("test/label.test.js", TESTS);
    w.outside("npm install --silent --offline --no-audit --no-fund").ok();
    w.commit("Make labels");
    w.write("label.js", BROKEN);
    w.commit("Make labels tidier");
    Project {
        test: "npm test --silent",
        dependency: "npm install --silent --offline --no-audit --no-fund ./vendor/pad-2.0.0.tgz",
        patch: w.write(w.dir.join("half.patch"), FIX),
        protect: None,
        winner: "revert",
        tests: 2,
        path: None,
    }
}

fn pack(w: &World, version: &str, code: &str) {
    let manifest = format!("{{ \"name\": \"pad\", \"version\": \"{version}\", \"main\": \"index.js\" }}\n");
    w.write(w.dir.join("pack/package/package.json"), manifest);
    w.write(w.dir.join("pack/package/index.js"), code);
    let pack = w.dir.join("pack");
    w.outside(&format!("mkdir -p vendor && tar -C {} -czf vendor/pad-{version}.tgz package", pack.display())).ok();
}
