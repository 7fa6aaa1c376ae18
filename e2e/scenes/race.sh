# A shopping cart with a bug, three versions of what it depends on, and what races need.
set -e
mkdir -p ~/cart/vendor && cd ~/cart && git init --quiet
tally() {
    mkdir -p ~/tally/package
    printf '{"name": "tally", "version": "%s", "main": "tally.js"}\n' "$1" > ~/tally/package/package.json
    printf 'exports.round = (sum) => %s;\n' "$2" > ~/tally/package/tally.js
    tar --sort=name --mtime=@0 --owner=0 --group=0 -czf vendor/tally-"$1".tgz -C ~/tally package
    rm -r ~/tally
}
tally 1.4.0 'Math.round(sum * 100) / 100'
tally 2.0.0 'Math.round(100 * sum) / 100'
tally 2.1.0 'Math.round((sum + Number.EPSILON) * 100) / 100'
printf 'node_modules\n' > .gitignore
cat > package.json <<'END'
{ "name": "cart", "version": "1.0.0", "scripts": { "test": "node --test --test-reporter=spec" },
  "dependencies": { "tally": "file:vendor/tally-1.4.0.tgz" } }
END
cat > cart.js <<'END'
const { round } = require("tally");

exports.total = (prices) => round(prices.reduce((sum, price) => sum + price, 0));
END
cat > cart.test.js <<'END'
const test = require("node:test");
const { equal } = require("node:assert");
const { total } = require("./cart");
test("an empty cart costs nothing", () => equal(total([]), 0));
test("prices are added", () => equal(total([1, 2]), 3));
END
npm install --offline --silent
git add . && git commit --quiet -m 'Add up prices'
cat > cart.js <<'END'
const { round } = require("tally");

exports.total = (prices, discount = 0) => {
  const sum = prices.reduce((sum, price) => sum + price, 0);
  return round(sum * (1 - discount));
};
END
cat >> cart.test.js <<'END'
test("no discount is the default", () => equal(total([30]), 30));
test("a discount is in percent", () => equal(total([10, 20], 25), 22.5));
END
git commit --quiet -am 'Subtract a discount'
sed -i 's|discount)|discount / 100)|' cart.js
git diff > ../fix.patch
git checkout --quiet cart.js
cat > ~/judge.sh <<'END'
# The shortest new line is the easiest to read.
jq -r '.attempts
    | map({ name, line: [.diff.changes[].hunks[].lines[] | select(.[0] == "+")][0][1] })
    | min_by(.line | length)
    | .name, "the shorter line: " + (.line | gsub("^ +|\n$"; ""))'
END
set +e
