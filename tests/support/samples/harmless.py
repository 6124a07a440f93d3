"""Lines with hashes, tokens and words that look like secrets, but are none."""

LINES = """\
commit 3f786850e387550fdab836ed7e6dc881de23001b
index 83db48f..bf2a3c1 100644
e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty.bin
d41d8cd98f00b204e9800998ecf8427e *empty.bin
id: 123e4567-e89b-12d3-a456-426614174000
"integrity": "sha512-jBpcPpkjBpcPpkD3xYQZTaG6nUwC1wZ0oXSSnVyGWvT4+Zq8mI9vQ1VbPFZrkBr4bQFzFhXkO2aUoYlq4A8Vw==",
    --hash=sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
checksum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
"resolved": "https://registry.npmjs.org/js-tokens/-/js-tokens-4.0.0.tgz",
<img src="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDw">
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7vbqajDhA me@host
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@host
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
if "-----BEGIN PRIVATE KEY-----" in text:
token = get_token()
token = self.tokenizer.next_token()
token: str | None = None
password: str
password: string;
password = getpass.getpass("Password: ")
password = os.environ["DB_PASSWORD"]
password=password,
password=self.password)
api_key=settings.OPENAI_API_KEY,
api_key = config.api_key2
api_key: Optional[SecretStr] = Field(default=None)
OPENAI_API_KEY=your-api-key-here
OPENAI_API_KEY=<your key>
OPENAI_API_KEY=${OPENAI_API_KEY}
OPENAI_API_KEY=$(pass show openai)
OPENAI_API_KEY=sk-...
OPENAI_API_KEY=xxxxxxxxxxxxxxxxxxxx
DB_PASSWORD=changeme
DB_PASSWORD=
DB_PASSWORD_FILE=/run/secrets/db_password
TOKEN_FILE=/var/run/token.txt
API_KEY_HEADER = "X-API-Key"
SECRET_KEY = env("SECRET_KEY")
SECRET_NAME: "projects/demo/secrets/name"
export const TOKEN = process.env.GITHUB_TOKEN;
const password = document.getElementById("password2").value;
max_tokens=4096
"max_tokens": 16384,
"tokens": 12345678,
"total_tokens": 123456789, "prompt_tokens": 12345678
token_count = 12345678
"token_type": "bearer",
"nextToken": "AbC123dEf456GhI789jKl012",
page_token="CAoQAA1b2c3d4e5f6g7"
eos_token_id=50256, pad_token="<|endoftext|>"
"pad_token": "[PAD]",
"public_key": "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE4f5wg2l2hKsTeNem",
primary_key = "customer_id_2024_v2"
cache_key = f"user:{user_id}:v2"
sort_key="created_at_2024a"
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
headers["Authorization"] = f"Bearer {token}"
"Authorization": "Bearer YOUR_API_KEY"
Authorization: Basic authentication is not supported
The bearer of this letter is allowed to enter.
Set-Cookie: theme=dark; Path=/; Max-Age=31536000
Cookie: lang=en-GB; theme=dark
https://example.com:8080/path?q=a@b
git@github.com:owner/repository.git
postgresql://user:password@localhost:5432/app
postgresql://postgres:postgres@localhost/app
mysql://{user}:{password}@{host}/app
redis://${REDIS_USER}:${REDIS_PASSWORD}@cache:6379
npm:@scope/package@1.2.3
.sk-fading-circle .sk-circle-before-animation-delay-12 { animation-delay: -1.2s; }
<div class="task-list-item-checkbox-2024-large-desk-top">
--brand-color-primary-2024: #a1b2c3d4;
!function(e,t){for(var n=e.token,r=t.key;n;)n=n.next,r.password=n.value,a.secret=b.secret2}(window,document);
import { token as accessToken2, secretKeyRef } from "./tokens";
secretKeyRef: { name: db-credentials-v2, key: password }
<input type="password" name="password" placeholder="Enter your password">
"password": "Your password must contain 8 characters and 1 digit",
assert token == "access_token"
self.assertEqual(resp.json()["token_type"], "bearer")
def reset_password(token: str, new_password: str) -> None:
throw new Error("password: must be at least 8 characters");
raise ValueError("token=%s is not valid" % token)
log.info("token: %s, secret: %s", token, secret)
TOKEN = re.compile(r"[A-Za-z0-9_]{16,}")
password = "".join(random.choices(string.ascii_letters + string.digits, k=16))
secret = hashlib.sha256(seed.encode()).hexdigest()
arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbC123
password: {{ vault_db_password }}
password: !vault |
password = var.db_password_v2
password = random_password.db1.result
"passwordEncryption": "scram-sha-256",
password: ********
Enter password for user2024:
keyboard: qwerty123456, monkey: bananas12345
2026-11-21T12:45:53.123Z INFO auth: token refreshed for user 12345678 in 12ms
E = mc^2; key: 12345678; key = abcdefgh12345678
"key": "item-2024-11-21-a1b2c3d4",
Authenticated to host1234 using "publickey".
SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDqEn0kHUcGkz5MXQ1
""".splitlines()
