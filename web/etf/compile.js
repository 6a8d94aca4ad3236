// Compiles src/ into dist/, with short names for members that no page uses, which a page's minifier
// cannot give them: to it a property may be anybody's. Classes that do not extend each
// other share the letters, and what is used most gets the first ones: the same letters again are
// what gzip makes small. Numbers that have names stand in their places, classes and namespaces get
// the form that minifiers make the least of. Source maps lead back to what is in src/.
import { copyFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { letters, lettersOf } from "./letters.js";

/** Names for members from the most used on, those of its class first. */
function namesFor(root, count) {
    const at = Array.from({ length: count }, (_, index) => index);
    // What bench/etf/letters.js searches with.
    if (process.argv.includes("--marked")) return at.map((index) => `q_${root}_${index}_q`);
    const own = lettersOf[root]?.split(" ") ?? [];
    const others = [...letters, ...[...letters].map((letter) => `e${letter}`)];
    return [...own, ...others.filter((name) => !own.includes(name))].slice(0, count);
}

const here = fileURLToPath(new URL(".", import.meta.url));
const { config } = ts.readConfigFile(`${here}tsconfig.json`, ts.sys.readFile);
const { fileNames, options } = ts.parseJsonConfigFileContent(config, ts.sys, here);
const program = ts.createProgram(fileNames, options);
const checker = program.getTypeChecker();

// First of all: what types are inferred depends on what was asked before.
const wrong = ts.getPreEmitDiagnostics(program);
const host = { getCanonicalFileName: (name) => name, getCurrentDirectory: () => here };
process.stderr.write(ts.formatDiagnostics(wrong, { ...host, getNewLine: () => "\n" }));
if (wrong.length > 0) process.exit(1);

const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
const hasTag = (node, name) => ts.getJSDocTags(node).some(({ tagName }) => tagName.text === name);
const classOf = (node) => ts.findAncestor(node, ts.isClassLike);
const sources = program.getSourceFiles().filter(({ fileName }) => fileNames.includes(fileName));
/** The classes that a page can import. */
const shared = new Set(
    sources
        .filter(({ fileName }) => /\/(index|decode|async|inflate|read|write)\.ts$/.test(fileName))
        .flatMap((file) => checker.getExportsOfModule(checker.getSymbolAtLocation(file)))
        .map((symbol) =>
            symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
        )
        .map((symbol) => symbol.valueDeclaration),
);
const isMember = (node) =>
    (ts.isClassElement(node) &&
        ts.isClassLike(node.parent) &&
        !ts.isConstructorDeclaration(node)) ||
    ts.isParameterPropertyDeclaration(node, node.parent);
// Of terms themselves a console shows the private members, too.
const isShown = (node) =>
    /\/(term|map)\.ts$/.test(node.getSourceFile().fileName) && !ts.isMethodDeclaration(node);

/** The declaration of the hidden member that a symbol is, if it is one. */
function memberOf(symbol) {
    const declaration = symbol?.declarations?.[0];
    if (declaration === undefined || !isMember(declaration) || isShown(declaration))
        return undefined;
    const isHidden =
        (ts.getCombinedModifierFlags(declaration) & hidden) !== 0 ||
        hasTag(declaration, "internal") ||
        !shared.has(classOf(declaration));
    return isHidden && !hasTag(declaration, "public") ? declaration : undefined;
}

/** The class that a class extends in the end. */
function rootOf(declaration) {
    const [base] = checker.getBaseTypes(checker.getTypeAtLocation(declaration));
    return base === undefined ? declaration : rootOf(base.symbol.valueDeclaration);
}

/** How often each hidden name is used, for each class that extends no other. */
const uses = new Map();

function namesAround(declaration) {
    const root = rootOf(classOf(declaration));
    if (!uses.has(root)) uses.set(root, new Map());
    return uses.get(root);
}

/** What `{ name }` takes apart is the property, not the variable that it makes. */
function takenApart(node) {
    if (!ts.isBindingElement(node) || !ts.isObjectBindingPattern(node.parent)) return undefined;
    const name = node.propertyName ?? node.name;
    const property = checker.getTypeAtLocation(node.parent).getProperty(name.text);
    return property && memberOf(property) && { name, member: memberOf(property) };
}

/** The hidden member that an identifier names, and the name. */
function named(node) {
    const member = ts.isIdentifier(node) && memberOf(checker.getSymbolAtLocation(node));
    return member ? { name: node, member } : undefined;
}

function count(node) {
    const found = named(node) ?? takenApart(node);
    if (found !== undefined) {
        const names = namesAround(found.member);
        names.set(found.name.text, (names.get(found.name.text) ?? 0) + 1);
    }
    ts.forEachChild(node, count);
}

sources.forEach(count);
const shortened = new Map(
    [...uses].map(([root, names]) => {
        const byUse = [...names].sort(([, a], [, b]) => b - a);
        const given = namesFor(root.name.text, byUse.length);
        return [root, new Map(byUse.map(([name], at) => [name, given[at]]))];
    }),
);

/** The short name, which stands where the long one stood. */
function short({ name, member }) {
    const letter = shortened.get(rootOf(classOf(member))).get(name.text);
    return ts.setTextRange(ts.setOriginalNode(ts.factory.createIdentifier(letter), name), name);
}

/** The number that a module's constant is, if the identifier names one that is written as one. */
function numberOf(node) {
    if (!ts.isIdentifier(node) || !/^[A-Z_]+$/.test(node.text)) return undefined;
    if (ts.isImportSpecifier(node.parent) || ts.isExportSpecifier(node.parent)) return undefined;
    const symbol = checker.getSymbolAtLocation(node);
    const isAlias = symbol && symbol.flags & ts.SymbolFlags.Alias;
    const constant = (isAlias ? checker.getAliasedSymbol(symbol) : symbol)?.valueDeclaration;
    if (!constant || constant === node.parent || !ts.isVariableDeclaration(constant))
        return undefined;
    const text = constant.initializer?.getText() ?? "";
    const isNumber = /^(0x[\da-f]+|\d+)( (\*|<<|\|) \d+)*$/.test(text);
    return isNumber ? Number(new Function(`return ${text}`)()) : undefined;
}

function literal(number) {
    const { factory } = ts;
    const digits = factory.createNumericLiteral(Math.abs(number));
    return number < 0
        ? factory.createPrefixUnaryExpression(ts.SyntaxKind.MinusToken, digits)
        : digits;
}

const shorten = (context) => (file) => {
    const visit = (node) => {
        const number = numberOf(node);
        if (number !== undefined) return literal(number);
        const found = named(node);
        if (found !== undefined) return short(found);
        const apart = takenApart(node);
        if (apart === undefined) return ts.visitEachChild(node, visit, context);
        const { dotDotDotToken, name, initializer } = node;
        return ts.factory.updateBindingElement(
            node,
            dotDotDotToken,
            short(apart),
            name,
            ts.visitNode(initializer, visit),
        );
    };
    return ts.visitNode(file, visit);
};

/**
 * Makes `export * as read from "./read.js"` an object of what it exports: to a bundler a namespace
 * is a function for each name.
 */
const unwrap = (context) => (file) => {
    const { factory } = context;
    const visit = (node) => {
        if (!ts.isExportDeclaration(node) || !node.exportClause?.name) return node;
        const {
            exportClause: { name },
            moduleSpecifier,
        } = node;
        const all = factory.createUniqueName(name.text);
        const properties = checker
            .getExportsOfModule(checker.getSymbolAtLocation(moduleSpecifier))
            .filter(({ flags }) => flags & ts.SymbolFlags.Value)
            .map((symbol) =>
                factory.createPropertyAssignment(
                    symbol.name,
                    factory.createPropertyAccessExpression(all, symbol.name),
                ),
            );
        const value = factory.createObjectLiteralExpression(properties);
        return [
            factory.createImportDeclaration(
                undefined,
                factory.createImportClause(false, undefined, factory.createNamespaceImport(all)),
                moduleSpecifier,
            ),
            factory.createVariableStatement(
                [factory.createModifier(ts.SyntaxKind.ExportKeyword)],
                factory.createVariableDeclarationList(
                    [factory.createVariableDeclaration(name, undefined, undefined, value)],
                    ts.NodeFlags.Const,
                ),
            ),
        ];
    };
    return ts.visitEachChild(file, visit, context);
};

/**
 * Makes `class A {}` a constant whose value is a class without a name of its own: for that esbuild
 * sets a letter aside in all methods, which then have others than functions have.
 */
const unname = (context) => (file) => {
    const { factory } = context;
    const visit = (node) => {
        if (!ts.isClassDeclaration(node)) return node;
        const { heritageClauses, members, modifiers, name } = node;
        const value = factory.createClassExpression([], undefined, [], heritageClauses, members);
        const constant = factory.createVariableStatement(
            modifiers,
            factory.createVariableDeclarationList(
                [factory.createVariableDeclaration(name, undefined, undefined, value)],
                ts.NodeFlags.Const,
            ),
        );
        return ts.setTextRange(ts.setOriginalNode(constant, node), node);
    };
    return ts.visitEachChild(file, visit, context);
};

// Nothing of an earlier build stays, test programs included. What npm packs holds its licence.
for (const folder of ["dist", "build/test"])
    rmSync(`${here}${folder}`, { recursive: true, force: true });
copyFileSync(`${here}../../LICENSE`, `${here}LICENSE`);
program.emit(undefined, undefined, undefined, false, {
    before: [shorten, unwrap],
    after: [unname],
});
