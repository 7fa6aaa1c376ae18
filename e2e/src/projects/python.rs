//! A program whose dependency comes as wheels in a directory.

use super::Project;
use crate::World;

/// Writes a wheel, which is an archive with a list of what is in it.
const WHEEL: &str = r#"
import sys, zipfile
version, code = sys.argv[1:]
info = f"rounding-{version}.dist-info"
files = {
    "rounding.py": code,
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: rounding\nVersion: {version}\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(f"wheels/rounding-{version}-py3-none-any.whl", "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
"#;

const BEFORE: &str = "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'lib'))\n\nfrom rounding import cents\n\n\ndef total(prices):\n    return cents(sum(prices))\n";
const AFTER: &str = "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'lib'))\n\nfrom rounding import cents\n\n\ndef total(prices):\n    return cents(sum(prices))\n\n\ndef with_tax(price, percent):\n    return cents(price * percent / 100)\n";
const TESTS: &str = "import unittest\n\nfrom shop import price\n\n\nclass Total(unittest.TestCase):\n    def test_prices_are_added(self):\n        self.assertEqual(price.total([1.10, 2.20]), 3.30)\n\n    def test_nothing_costs_nothing(self):\n        self.assertEqual(price.total([]), 0)\n";
const TAX_TEST: &str = "import unittest\n\nfrom shop import price\n\n\nclass Tax(unittest.TestCase):\n    def test_a_tax_is_added_to_the_price(self):\n        self.assertEqual(price.with_tax(100, 19), 119)\n";
const FIX: &str = "--- a/shop/price.py\n+++ b/shop/price.py\n@@ -9,4 +9,4 @@\n \n \n def with_tax(price, percent):\n-    return cents(price * percent / 100)\n+    return cents(price * (100 + percent) / 100)\n";

/// The last commit has a fault and a test that shows it. To take it back takes the test with it, which is not allowed; another version
/// of the dependency rounds otherwise and does not help; the patch mends it.
#[must_use]
pub fn python(w: &World) -> Project {
    w.mkdir(&w.project.join("wheels"));
    wheel(w, "1.0", "def cents(amount):\n    return round(amount, 2)\n");
    wheel(w, "2.0", "import math\n\n\ndef cents(amount):\n    return math.floor(amount * 100 + 0.5) / 100\n");
    w.write(".gitignore", "lib\n__pycache__\n");
    w.write("shop/__init__.py", "");
    w.write("tests/__init__.py", "");
    w.write("shop/price.py", BEFORE);
    w.write("tests/test_total.py", TESTS);
    w.outside(&install("1.0")).ok();
    w.commit("Add prices");
    w.write("shop/price.py", AFTER);
    w.write("tests/test_tax.py", TAX_TEST);
    w.commit("Add tax");
    Project {
        test: "/usr/bin/python3 -m unittest",
        dependency: "/usr/bin/pip3 install --quiet --disable-pip-version-check --no-index --no-deps --upgrade --find-links wheels --target lib rounding==2.0",
        patch: w.write(w.dir.join("tax.patch"), FIX),
        protect: Some("tests/**"),
        winner: "patch",
        tests: 3,
        path: None,
    }
}

fn wheel(w: &World, version: &str, code: &str) {
    w.program("/usr/bin/python3").args(["-c", WHEEL, version, code]).go().ok();
}

fn install(version: &str) -> String {
    format!(
        "/usr/bin/pip3 install --quiet --disable-pip-version-check --no-index --no-deps --find-links wheels --target lib rounding=={version}"
    )
}
