// Shortens the names of private and protected members in dist/, which no minifier of a page can
// do: to it a property may be anybody's. A name that is used for anything else as well stays.
// Source maps lead back to the names in src/.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { transformSync } from "esbuild";
import ts from "typescript";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** The names in these files that only private and protected members have. */
function privateNames(files) {
    const program = ts.createProgram(files, { target: ts.ScriptTarget.ES2020, strict: true });
    const checker = program.getTypeChecker();
    const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
    // Of terms themselves a console shows the private members, too.
    const isShown = (declaration) => /\/(term|map)\.ts$/.test(declaration.getSourceFile().fileName);
    const isHidden = (declaration) =>
        (ts.getCombinedModifierFlags(declaration) & hidden) !== 0 && !isShown(declaration);
    const uses = { private: new Set(), other: new Set() };
    const visit = (node) => {
        if (ts.isIdentifier(node)) {
            // What `{ name }` takes apart is the property, not the variable that it makes.
            const owner = ts.isBindingElement(node.parent)
                ? checker.getTypeAtLocation(node.parent.parent)
                : undefined;
            const symbol = owner?.getProperty(node.text) ?? checker.getSymbolAtLocation(node);
            const declarations = symbol?.declarations ?? [];
            const isPrivate = declarations.length > 0 && declarations.every(isHidden);
            const isMember = declarations.length === 0 || declarations.some(isProperty);
            if (isMember) uses[isPrivate ? "private" : "other"].add(node.text);
        }
        ts.forEachChild(node, visit);
    };
    const isProperty = (declaration) =>
        ts.isClassElement(declaration) ||
        ts.isTypeElement(declaration) ||
        ts.isObjectLiteralElement(declaration) ||
        ts.isParameterPropertyDeclaration(declaration, declaration.parent);
    program
        .getSourceFiles()
        .filter(({ fileName }) => files.includes(fileName))
        .forEach(visit);
    return [...uses.private].filter((name) => !uses.other.has(name));
}

const sources = readdirSync(here("src")).map((name) => here(`src/${name}`));
const mangleProps = new RegExp(`^(${privateNames(sources).join("|")})$`);
let mangleCache = {};
for (const name of readdirSync(here("dist")).filter((name) => name.endsWith(".js"))) {
    const file = here(`dist/${name}`);
    const shortened = transformSync(readFileSync(file, "utf8"), {
        mangleProps,
        mangleCache,
        sourcemap: "external",
        sourcefile: name,
    });
    mangleCache = shortened.mangleCache;
    writeFileSync(file, `${shortened.code}//# sourceMappingURL=${name}.map\n`);
    writeFileSync(`${file}.map`, shortened.map);
}
