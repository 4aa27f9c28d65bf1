// Starts netc lsp for .net files.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const settings = vscode.workspace.getConfiguration("netc");
  const options = { defines: settings.get("defines") };
  if (settings.get("target")) options.target = settings.get("target");
  client = new LanguageClient(
    "netc",
    { command: settings.get("path"), args: ["lsp"] },
    { documentSelector: [{ language: "netc" }], initializationOptions: options }
  );
  return client.start();
};

exports.deactivate = () => client && client.stop();
