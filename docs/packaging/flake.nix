# Beside the sources: nix run . -- -m demo -p hello
{
  description = "The terminal agent you can kill at any moment";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "aarch64-darwin"
        "aarch64-linux"
        "x86_64-linux"
      ];
      forEach = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = forEach (pkgs: {
        default = pkgs.python3.pkgs.buildPythonApplication {
          pname = "sandbur";
          version = "0.1.0";
          pyproject = true;
          src = self;
          build-system = [ pkgs.python3.pkgs.hatchling ];
          # A package that nixpkgs lacks, or has in another version, needs an overlay of yours.
          dependencies = with pkgs.python3.pkgs; [
            apache-burr
            pydantic
            openai
            anthropic
            httpx2
            httpcore2
            rich
            markdown-it-py
            prompt-toolkit
            genai-prices
            docstring-parser
            jsonschema-rs
            tomlkit
          ];
          makeWrapperArgs = [ "--prefix PATH : ${nixpkgs.lib.makeBinPath [ pkgs.git pkgs.ripgrep ]}" ];
          pythonImportsCheck = [ "sandbur" ];
          meta = {
            license = nixpkgs.lib.licenses.asl20;
            mainProgram = "sandbur";
          };
        };
      });
      apps = forEach (pkgs: {
        default = {
          type = "app";
          program = "${self.packages.${pkgs.stdenv.hostPlatform.system}.default}/bin/sandbur";
        };
      });
    };
}
