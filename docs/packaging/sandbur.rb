# A formula for a tap of your own: homebrew-sandbur/Formula/sandbur.rb. Replace the address and the hash by those of
# the release that you build (`SHA256SUMS` beside it has the hash of its source archive).
class Sandbur < Formula
  desc "Terminal agent you can kill at any moment, a durable state machine on Apache Burr"
  homepage "https://example.org/sandbur"
  url "https://example.org/sandbur/archive/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on "python@3.13"
  depends_on "ripgrep" => :recommended

  def install
    system "python3.13", "-m", "venv", libexec
    # pip resolves the dependencies of pyproject.toml when the formula is built.
    system libexec/"bin/python", "-m", "pip", "install", "--no-cache-dir", buildpath
    bin.install_symlink libexec/"bin/sandbur"
    man1.install_symlink libexec/"share/man/man1/sandbur.1"
    bash_completion.install_symlink libexec/"share/bash-completion/completions/sandbur"
    zsh_completion.install_symlink libexec/"share/zsh/site-functions/_sandbur"
    fish_completion.install_symlink libexec/"share/fish/vendor_completions.d/sandbur.fish"
  end

  test do
    ENV["SANDBUR_HOME"] = testpath/"data"
    assert_match "sandbur #{version}", shell_output("#{bin}/sandbur --version")
    assert_match "hi", shell_output("#{bin}/sandbur -m demo -y -p 'run echo hi'")
  end
end
