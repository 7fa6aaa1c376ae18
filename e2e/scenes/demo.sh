# The project and the agent of the tutorial.
mkdir ~/demo && cd ~/demo && git init --quiet
cat > app.py <<'EOF'
def greet(name):
    return "hello " + name


def count(words):
    return len(words)


def price(amount, discount):
    return amount * (1 - discount)


if __name__ == "__main__":
    print(greet("world"))
EOF
cat > test_app.py <<'EOF'
import unittest
import app


class Test(unittest.TestCase):
    def test_count(self):
        self.assertEqual(app.count(["a", "b"]), 2)

    def test_discount_is_in_percent(self):
        self.assertEqual(app.price(30, 25), 22.5)
EOF
printf 'test:\n\tpython3 -m unittest\n' > Makefile
printf 'build\n__pycache__\n' > .gitignore
git add . && git commit --quiet -m 'first version'
cat > ~/agent.sh <<'EOF'
# An agent that does what you asked for, and a little more.
sed -i 's/"hello "/"goodbye "/; s/(1 - discount)/(1 - discount \/ 100)/' app.py
printf 'release: test\n\t./upload\n' >> Makefile
mkdir -p build && head -c 40000 /dev/zero > build/app.bin
echo 'alias ls=true' >> ~/.bashrc
EOF
